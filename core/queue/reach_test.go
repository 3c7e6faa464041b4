package queue_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"berth.dev/berth/core/queue"
)

func TestCompete(t *testing.T) {
	t4, h100, both := queue.NewReach([]string{"t4-1", "t4-2"}), queue.NewReach([]string{"h100"}), queue.NewReach([]string{"t4-2", "h100"})
	nowhere := queue.NewReach(nil)
	for _, test := range []struct {
		name string
		a, b *queue.Reach
		want bool
	}{
		{"pods of one kind of node", t4, t4, true},
		{"pods of nodes that differ", t4, h100, false},
		{"a pod that can go to either", t4, both, true},
		{"a pod of which nothing is known", nil, h100, true},
		{"two for which there are no nodes yet", nowhere, queue.NewReach(nil), true},
		{"one for which there are no nodes, and one for which there are", nowhere, t4, false},
	} {
		if got, back := queue.Compete(test.a, test.b), queue.Compete(test.b, test.a); got != test.want || back != test.want {
			t.Errorf("%s compete: %v, and the other way round %v; want %v", test.name, got, back, test.want)
		}
	}
}

// TestMeetsIsAnIntersection compares Meets and Has with looking at every node.
func TestMeetsIsAnIntersection(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 5))
	some := func() (names []string) {
		for range chance.IntN(5) {
			names = append(names, string(rune('a'+chance.IntN(8))))
		}
		return names
	}
	for range 2000 {
		x, y := some(), some()
		a, b := queue.NewReach(x), queue.NewReach(y)
		want := slices.ContainsFunc(x, func(n string) bool { return slices.Contains(y, n) })
		if a.Meets(b) != want || b.Meets(a) != want {
			t.Fatalf("%v and %v meet: %v, want %v", x, y, a.Meets(b), want)
		}
		for _, n := range x {
			if !a.Has(n) || b.Has(n) != slices.Contains(y, n) {
				t.Fatalf("node %s of %v: %v, of %v: %v", n, x, a.Has(n), y, b.Has(n))
			}
		}
	}
}

func TestOvertakers(t *testing.T) {
	after := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	waits := queue.Ask{Ticket: queue.Ticket{Age: at(10000, "w")}, Name: "ns/large", Resource: "gpu", Count: 4}
	reach := queue.NewReach([]string{"a", "b"})
	base := queue.Ask{Ticket: queue.Ticket{Age: at(20000, "s")}, Name: "ns/small", Resource: "gpu", Count: 1, Node: "a", Started: after(30)}
	for _, test := range []struct {
		name string
		edit func(*queue.Ask)
		want bool
	}{
		{"a later and smaller pod", func(*queue.Ask) {}, true},
		{"one that asks for another size of the same devices", func(s *queue.Ask) { s.Resource, s.Count = "gpu-memory", 9 }, true},
		{"one of lower priority", func(s *queue.Ask) { s.Priority = -1 }, true},
		{"one that came before", func(s *queue.Ask) { s.Age = at(0, "s") }, false},
		{"one of higher priority", func(s *queue.Ask) { s.Priority = 1 }, false},
		{"one that is as large", func(s *queue.Ask) { s.Count = 4 }, false},
		{"one on a node that the pod cannot use", func(s *queue.Ask) { s.Node = "c" }, false},
		{"one that waits itself", func(s *queue.Ask) { s.Node = "" }, false},
	} {
		s := base
		test.edit(&s)
		if got := len(queue.Overtakers(&waits, reach, []queue.Ask{s})) == 1; got != test.want {
			t.Errorf("%s has overtaken: %v, want %v", test.name, got, test.want)
		}
	}
	last := base
	last.Name, last.UID, last.Started = "ns/last", "t", after(40)
	if got := queue.Overtakers(&waits, reach, []queue.Ask{base, last}); len(got) != 2 || got[0].Name != "ns/last" {
		t.Errorf("of two that have overtaken, the one that did so last comes first: %+v", got)
	}
}
