package cluster_test

import (
	"math/rand"
	"slices"
	"testing"

	"berth.dev/berth/core/cluster"
)

// TestEndsAreThoseOfWhatIsHeld compares the ends of each node with those of a plain list of placements, after random
// assumes and releases, some of them rolled back.
func TestEndsAreThoseOfWhatIsHeld(t *testing.T) {
	for seed := range int64(50) {
		rng := rand.New(rand.NewSource(seed))
		s := snapshot(t, node("a", 4, cluster.RecutFree, "3g.20gb"), node("b", 2, cluster.RecutEmpty), node("c", 8, cluster.RecutNever))
		var held []*cluster.Placement
		for range 10 {
			held = change(s, rng, held, 10)
			clone, m := s.Clone(), s.Mark()
			change(s, rng, held, 10)
			s.RollBack(m)
			change(clone, rng, held, 10)
			for i := range s.Len() {
				var want []int64
				gpus := 0
				for _, p := range held {
					if p.Node != i {
						continue
					}
					if gpus++; p.Ends != 0 {
						want = append(want, p.Ends)
					}
				}
				if slices.Sort(want); !slices.Equal(s.Ends(i), want) || s.HeldGPUs(i) != gpus {
					t.Fatalf("seed %d, node %d: ends %v of %d requests; want %v of %d", seed, i, s.Ends(i), s.HeldGPUs(i), want, gpus)
				}
			}
		}
	}
}

// TestEndsOfWhatUsesNoGPUDoNotCount has a node that a pod without GPUs keeps in use: its GPUs are idle all the same.
func TestEndsOfWhatUsesNoGPUDoNotCount(t *testing.T) {
	s := snapshot(t, node("a", 1, cluster.RecutNever))
	if err := s.Assume(&cluster.Placement{Request: cluster.Request{CPUMilli: 1000}, Ends: 5}); err != nil {
		t.Fatal(err)
	}
	if got := s.Ends(0); len(got) > 0 || s.HeldGPUs(0) != 0 {
		t.Errorf("ends %v of %d requests for GPUs", got, s.HeldGPUs(0))
	}
}
