package quota_test

import (
	"slices"
	"testing"
	"time"

	"berth.dev/berth/core/quota"
)

// waits has workloads of one GPU wait in queue red, each with the priority of its pods.
func waits(b *quota.Book, list map[string]int32, line map[string]int32) {
	for id, priority := range list {
		w := ask(id, "red", "", 1)
		w.Ticket.UID, w.Ticket.Priority = id, priority
		if p, apart := line[id]; apart {
			w.Line = &p
		}
		b.Wait(w)
	}
}

func TestTheLineIsOrderedByThePriorityThatCountsThere(t *testing.T) {
	ceiling := int32(50)
	for _, tt := range []struct {
		name       string
		ceiling    *int32
		pods, line map[string]int32
		want       []string
	}{
		{"by that of the pods where there is no other", nil, map[string]int32{"a": 1, "b": 3, "c": 2}, nil, []string{"b", "c", "a"}},
		{"by another where a workload has one", nil, map[string]int32{"a": 1, "b": 3, "c": 2}, map[string]int32{"a": 9, "b": 0}, []string{"a", "c", "b"}},
		{"at most by the ceiling, also of another", &ceiling, map[string]int32{"a": 40, "b": 99, "c": 60}, map[string]int32{"c": 1000}, []string{"b", "c", "a"}},
		{"also by a negative one", nil, map[string]int32{"a": 1, "b": 0}, map[string]int32{"a": -5}, []string{"b", "a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := quota.NewBook(quota.NewTree([]quota.Spec{{Name: "red", Quotas: []quota.Quota{gpus(1)}, Ceiling: tt.ceiling}}))
			holds(b, ask("first", "red", "", 1), "")
			waits(b, tt.pods, tt.line)
			var line, called []string
			for _, w := range b.Waiting("red") {
				line = append(line, w.ID)
			}
			for pod := "first"; len(called) < len(tt.want); {
				b.Gone(pod)
				for _, w := range b.Next(time.Time{}) {
					if called = append(called, w.ID); w.Ticket.Priority != tt.pods[w.ID] {
						t.Errorf("%s is called with priority %d, want that of its pods, %d", w.ID, w.Ticket.Priority, tt.pods[w.ID])
					}
					holds(b, ask(w.ID, "red", "", 1), "")
					pod = w.ID
				}
			}
			if !slices.Equal(line, tt.want) || !slices.Equal(called, tt.want) {
				t.Errorf("in line are %v, and called were %v, want %v", line, called, tt.want)
			}
		})
	}
}

func TestAnotherPriorityMovesAWorkloadInItsLine(t *testing.T) {
	b := quota.NewBook(quota.NewTree([]quota.Spec{{Name: "red", Quotas: []quota.Quota{gpus(1)}}}))
	holds(b, ask("first", "red", "", 1), "")
	waits(b, map[string]int32{"a": 1, "b": 2}, nil)
	first := func() string { return b.Waiting("red")[0].ID }
	b.SetLine("a", new(int32(3)))
	b.SetLine("gone", new(int32(3)))
	if got := first(); got != "a" {
		t.Errorf("%s is first, want a, which has another priority now", got)
	}
	b.SetTree(b.Tree())
	if got := first(); got != "a" || b.Count("red") != 2 {
		t.Errorf("%s is first of %d after the queues were read again", got, b.Count("red"))
	}
	b.SetLine("a", nil)
	if got := first(); got != "b" {
		t.Errorf("%s is first, want b, as that of the pods counts again", got)
	}
}

// TestTheLineSaysNothingOfEvictions has a workload of low pods wait first in line: only the priority of
// its pods decides whether it may take the place of others.
func TestTheLineSaysNothingOfEvictions(t *testing.T) {
	for _, tt := range []struct {
		name       string
		pods, line int32
		calls      int
	}{
		{"high in line, with low pods", 0, 100, 0},
		{"low in line, with high pods", 100, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := quota.NewBook(quota.NewTree([]quota.Spec{
				{Name: "org", Quotas: []quota.Quota{gpus(2)}}, {Name: "red", Parent: "org", Quotas: []quota.Quota{gpus(1)}},
			}))
			for _, id := range []string{"h", "i", "gone"} {
				b.Hold(&quota.Holder{ID: id, Workload: id, Queue: "red", Priority: 50, Pieces: ask(id, "red", "", 1).Pods[0].Pieces})
			}
			waits(b, map[string]int32{"w": tt.pods}, map[string]int32{"w": tt.line})
			b.Gone("gone")
			if call := b.Claims(); len(call) != tt.calls {
				t.Errorf("%d are called to take the place of others, want %d", len(call), tt.calls)
			}
		})
	}
}
