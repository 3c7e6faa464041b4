package preemption_test

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/preemption"
)

// ends is a holder that declares that it ends in some minutes.
func ends(minutes int) preemption.Holder {
	return preemption.Holder{Priority: 9, Start: now, Ends: now.Add(time.Duration(minutes) * time.Minute)}
}

// waited is a holder that has run for minutes and whose end is waited for already.
func waited(minutes int) preemption.Holder {
	h := who(9, minutes)
	h.Awaited = true
	return h
}

func TestAwait(t *testing.T) {
	id := func(node, holder int) preemption.ID { return preemption.ID{Node: node, Holder: holder} }
	for _, tt := range []struct {
		name  string
		on    [2][4]preemption.Holder // of the GPUs of two nodes; the zero Holder is none
		asks  int32
		node  int // -1 is that there is no plan
		waits []preemption.ID
	}{
		{"the node whose declared ends come first", [2][4]preemption.Holder{{ends(5), ends(50), ends(5), ends(5)}, {ends(9), ends(9), ends(8), ends(9)}}, 4, 1, []preemption.ID{id(1, 0), id(1, 1), id(1, 2), id(1, 3)}},
		{"of one node those that end first", [2][4]preemption.Holder{{ends(9), ends(50), ends(5), ends(50)}, {ends(60), ends(60), ends(60), ends(60)}}, 2, 0, []preemption.ID{id(0, 0), id(0, 2)}},
		{"a declared end comes before an unknown one", [2][4]preemption.Holder{{who(9, 0), who(9, 0), who(9, 0), {}}, {ends(600), ends(600), ends(600), ends(600)}}, 4, 1, []preemption.ID{id(1, 0), id(1, 1), id(1, 2), id(1, 3)}},
		{"of unknown ends, what has run for the shortest time", [2][4]preemption.Holder{{who(9, 90), {}, {}, {}}, {who(9, 1), who(9, 1), who(9, 1), who(9, 1)}}, 4, 1, []preemption.ID{id(1, 0), id(1, 1), id(1, 2), id(1, 3)}},
		{"of equal ones, where the least is held", [2][4]preemption.Holder{{who(9, 1), who(9, 1), {}, {}}, {who(9, 1), {}, {}, {}}}, 4, 1, []preemption.ID{id(1, 0)}},
		{"an end that has passed is unknown", [2][4]preemption.Holder{{ends(-5), {}, {}, {}}, {ends(500), {}, {}, {}}}, 4, 1, []preemption.ID{id(1, 0)}},
		{"those that are waited for already, even if others end sooner", [2][4]preemption.Holder{{waited(600), {}, {}, {}}, {ends(1), ends(1), {}, {}}}, 4, 0, []preemption.ID{id(0, 0)}},
		{"and as few others as possible", [2][4]preemption.Holder{{waited(600), who(9, 30), waited(600), who(9, 1)}, {who(9, 1), who(9, 1), who(9, 1), who(9, 1)}}, 3, 0, []preemption.ID{id(0, 0), id(0, 2), id(0, 3)}},
		{"more than a node has", [2][4]preemption.Holder{}, 5, -1, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, spec(t, "a", "Tesla T4", 4), spec(t, "b", "Tesla T4", 4))
			for i := range tt.on {
				for j, h := range tt.on[i] {
					if h.Priority > 0 {
						hold(t, c, i, j, whole(1), h)
					}
				}
			}
			plan, _, ok := preemption.Await(c, &preemption.Preemptor{Members: []cluster.Request{whole(tt.asks)}}, now)
			if ok != (tt.node >= 0) || ok && plan.Placements[0].Node != tt.node {
				t.Fatalf("plan %+v, %v; want node %d", plan, ok, tt.node)
			}
			if diff := cmp.Diff(tt.waits, plan.Awaited); diff != "" {
				t.Errorf("awaited: -want +got\n%s", diff)
			}
		})
	}
}

// TestTwoAwaitDifferentDevices has one await what is promised to another in part.
func TestTwoAwaitDifferentDevices(t *testing.T) {
	c := newCluster(t, spec(t, "a", "Tesla T4", 4), spec(t, "b", "Tesla T4", 4))
	for j := range 3 {
		hold(t, c, 0, j, whole(1), ends(1))
		hold(t, c, 1, j, whole(1), ends(60))
	}
	p := &preemption.Preemptor{Members: []cluster.Request{whole(3)}}
	first, _, ok := preemption.Await(c, p, now)
	if !ok || first.Placements[0].Node != 0 {
		t.Fatalf("the first: %+v, %v", first, ok)
	}
	c.Holders[0] = append(c.Holders[0], preemption.Holder{Placement: first.Placements[0], Promise: true})
	second, _, ok := preemption.Await(c, p, now)
	if !ok || second.Placements[0].Node != 1 {
		t.Errorf("the second: %+v, %v; want the other node", second, ok)
	}
}

// TestWhatIsAwaitedIsEnough: on random clusters the request fits its place once those
// that it waits for are gone, no pod is evicted, and equal input gives equal plans.
func TestWhatIsAwaitedIsEnough(t *testing.T) {
	found := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		c, p := random(t, r, 1+int(seed%3))
		for i := range c.Holders {
			for k := range c.Holders[i] {
				if h := &c.Holders[i][k]; r.IntN(2) == 0 {
					h.Ends = now.Add(time.Duration(r.IntN(100)-10) * time.Minute)
				}
			}
		}
		plan, _, ok := preemption.Await(c, p, now)
		if again, _, _ := preemption.Await(c, p, now); !reflect.DeepEqual(plan, again) {
			t.Fatalf("seed %d: equal input, other plans:\n%+v\n%+v", seed, plan, again)
		}
		if !ok {
			continue
		}
		found++
		if len(plan.Victims)+len(plan.Broken) > 0 {
			t.Fatalf("seed %d: pods are to go: %+v", seed, plan)
		}
		s := c.Snapshot.Clone()
		for _, id := range plan.Awaited {
			if err := s.Release(&c.Holders[id.Node][id.Holder].Placement); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		for k := range plan.Placements {
			at := plan.Placements[k]
			if why := placement.Fit(s, at.Node, &at.Request); why != placement.Fits {
				t.Fatalf("seed %d: member %d does not fit node %d when all have ended: %s", seed, k, at.Node, why)
			}
			if err := s.Assume(&at); err != nil {
				t.Fatalf("seed %d: member %d: %v", seed, k, err)
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d plans", found)
	}
}
