package quota_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/quota"
)

func TestProblems(t *testing.T) {
	below := func(name, parent string, nominal int64) quota.Spec {
		return quota.Spec{Name: name, Parent: parent, Quotas: []quota.Quota{gpus(nominal)}}
	}
	tests := map[string]struct {
		specs []quota.Spec
		want  string
		stops string // the queues that admit nothing
	}{
		"a tree without a problem": {[]quota.Spec{below("org", "", 8), below("red", "org", 8)}, "", ""},
		"a parent that does not exist": {
			[]quota.Spec{below("red", "orgs", 4), below("sub", "red", 2)},
			`red spec.parent: there is no Queue "orgs"`, "red sub",
		},
		"a queue as its own parent": {[]quota.Spec{below("red", "red", 4)}, "red spec.parent: the queue would be its own ancestor: red, red", "red"},
		"a cycle, with a queue below it": {
			[]quota.Spec{below("a", "c", 1), below("b", "a", 1), below("c", "b", 1), below("sub", "b", 1), below("red", "", 4)},
			`a spec.parent: the queue would be its own ancestor: a, c, b, a
b spec.parent: the queue would be its own ancestor: b, a, c, b
c spec.parent: the queue would be its own ancestor: c, b, a, c`, "a b c sub",
		},
		"two parents: the same name twice, of which the older counts": {
			[]quota.Spec{{Name: "red", Parent: "blue", Created: epoch.Add(time.Second)}, {Name: "red", Parent: "org", Created: epoch}, below("org", "", 8), below("blue", "", 8)},
			"", "",
		},
		"more below than there is": {
			[]quota.Spec{below("org", "", 8), below("red", "org", 6), below("blue", "org", 3)},
			"org spec.quotas: the queues below have a nominal quota of 9 gpus together, more than the 8 of this one", "",
		},
		"one child with more than its tree": {
			[]quota.Spec{below("org", "", 8), below("red", "org", 9)},
			"org spec.quotas: the queues below have a nominal quota of 9 gpus together, more than the 8 of this one", "",
		},
		"a resource twice":  {[]quota.Spec{{Name: "red", Quotas: []quota.Quota{gpus(4), gpus(8)}}}, "red spec.quotas[1]: gpus is stated twice; the first counts", ""},
		"a negative amount": {[]quota.Spec{below("red", "", -4)}, "red spec.quotas[0]: an amount is negative", "red"},
		"absurd amounts": {
			[]quota.Spec{{Name: "org", Quotas: []quota.Quota{{Resource: quota.GPUs, Nominal: math.MaxInt64, Borrowing: math.MaxInt64, Lending: math.MaxInt64}}}, below("red", "org", math.MaxInt64/whole), below("blue", "org", math.MaxInt64/whole)},
			"", "",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tree := quota.NewTree(tt.specs)
			var lines, stops []string
			for _, p := range tree.Problems() {
				lines = append(lines, fmt.Sprintf("%s %s: %s", p.Queue, p.Field, p.Text))
			}
			if got := strings.Join(lines, "\n"); got != tt.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
			}
			b := quota.NewBook(tree)
			for _, queue := range tree.Names() {
				if v := b.Try(ask("new", queue, "", 1)); v.Cause == quota.NoQueue {
					stops = append(stops, queue)
				} else if v.Cause != quota.None {
					t.Errorf("a pod of one GPU in queue %s: %+v", queue, v)
				}
			}
			slices.Sort(stops)
			if got := strings.Join(stops, " "); got != tt.stops {
				t.Errorf("queues %q admit nothing, want %q", got, tt.stops)
			}
		})
	}
}

// TestChangesUnderRunningPods changes queues while pods hold quota and others wait.
func TestChangesUnderRunningPods(t *testing.T) {
	specs := func(red, blue int64) []quota.Spec {
		return []quota.Spec{
			{Name: "org", Quotas: []quota.Quota{gpus(8)}},
			{Name: "red", Parent: "org", Quotas: []quota.Quota{gpus(red)}},
			{Name: "blue", Parent: "org", Quotas: []quota.Quota{gpus(blue)}},
		}
	}
	b := quota.NewBook(quota.NewTree(specs(4, 4)))
	for _, id := range []string{"a", "b"} {
		holds(b, ask(id, "red", "ann", 4), "")
	}
	b.Wait(ask("w", "red", "bob", 1))
	next := func() (ids []string) {
		for _, w := range b.Next(time.Time{}) {
			ids = append(ids, w.ID)
		}
		return ids
	}

	// Halved: what runs stays, and nothing more is admitted. Another queue gets its own quota back.
	if call := b.SetTree(quota.NewTree(specs(2, 6))); len(call) > 0 || len(next()) > 0 {
		t.Errorf("a smaller queue calls %v", call)
	}
	if n := len(b.Holders()); n != 2 {
		t.Errorf("%d of 2 pods hold quota", n)
	}
	claim := &quota.Claim{Workload: ask("c", "blue", "", 4), Now: epoch.Add(time.Hour)}
	if victims, _, ok := b.Victims(claim, nil); !ok || len(victims) != 1 {
		t.Errorf("blue takes back %v of its quota", victims)
	}

	// Deleted: the pods stay and count nowhere, and those that wait are to be tried again.
	if call := b.SetTree(quota.NewTree([]quota.Spec{specs(4, 4)[0], specs(4, 4)[2]})); !slices.Equal(call, []string{"w"}) {
		t.Errorf("the deletion of a queue calls %v", call)
	}
	if v := b.Try(ask("w", "red", "bob", 1)); v.Cause != quota.NoQueue {
		t.Errorf("a pod of a queue that is gone: %+v", v)
	}
	if v := b.Try(ask("c", "blue", "", 8)); v.Cause != quota.None {
		t.Errorf("a pod of another queue: %+v", v)
	}

	// Created again, it counts what its pods hold.
	b.SetTree(quota.NewTree(specs(4, 4)))
	if v := b.Try(ask("c", "blue", "", 1)); v.Cause != quota.Used || v.Held != 8*whole {
		t.Errorf("a pod of another queue: %+v", v)
	}
}

// TestUsersOfAnyName: a name has up to some hundred bytes in any alphabet, and counts whole.
func TestUsersOfAnyName(t *testing.T) {
	long := strings.Repeat("長い名前", 25) // 300 bytes
	spec := quota.Spec{Name: "red", FairUsers: true, Quotas: []quota.Quota{gpus(100)}, PerUser: []quota.Limit{{Resource: quota.GPUs, Most: 2 * whole}}}
	b := quota.NewBook(quota.NewTree([]quota.Spec{spec}))
	names := []string{long, long + "1", long[:297], "ann", "Ann", "ann ", "ann\x00", "анна", "", "-é", "-e\u0301"}
	for k, name := range names {
		holds(b, ask(fmt.Sprint("held", k), "red", name, 2), "")
	}
	for _, name := range names {
		v := b.Try(ask("new", "red", name, 1))
		if v.Cause != quota.UserLimit || v.Held != 2*whole {
			t.Errorf("user %q: %+v", name, v)
		}
		if text := v.Sentence("the pod", name); name != "" && !strings.Contains(text, "user "+name+" holds 2 of the 2 GPUs") {
			t.Errorf("user %q: %s", name, text)
		}
	}
}
