package quota_test

import (
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/quota"
)

func TestGiveWay(t *testing.T) {
	specs := []quota.Spec{
		{Name: "org", Quotas: []quota.Quota{gpus(8)}},
		{Name: "red", Parent: "org", Quotas: []quota.Quota{gpus(4)}},
		{Name: "blue", Parent: "org", Quotas: []quota.Quota{gpus(4)}, PerUser: []quota.Limit{{Resource: quota.GPUs, Most: 2 * whole}}},
		{Name: "other", Quotas: []quota.Quota{gpus(4)}},
	}
	for name, c := range map[string]struct {
		holds   []*quota.Workload
		waiting []quota.Workload
		idle    string
		want    []string // workload: pods
	}{
		"no workload waits": {[]*quota.Workload{ask("nb", "red", "", 8)}, nil, "nb", nil},
		"there is quota anyway": {
			[]*quota.Workload{ask("nb", "red", "", 2)}, []quota.Workload{*ask("w", "blue", "", 2)}, "nb", nil,
		},
		"no more go than it takes, the first first": {
			[]*quota.Workload{ask("nb1", "red", "", 1), ask("nb2", "red", "", 1), ask("nb3", "red", "", 1), ask("run", "red", "", 5)},
			[]quota.Workload{*gangOf("w", "red", 2, 2)},
			"nb1 nb2 nb3",
			[]string{"w: nb1 nb2"},
		},
		"a larger one alone where it is enough": {
			[]*quota.Workload{ask("nb1", "red", "", 1), ask("nb2", "red", "", 3), ask("run", "red", "", 4)},
			[]quota.Workload{*gangOf("w", "red", 3, 3)},
			"nb1 nb2",
			[]string{"w: nb2"},
		},
		"none goes in vain": {
			[]*quota.Workload{ask("nb", "red", "", 1), ask("run", "red", "", 7)}, []quota.Workload{*gangOf("w", "red", 2, 2)}, "nb", nil,
		},
		"one of another tree does not help": {
			[]*quota.Workload{ask("nb", "other", "", 4), ask("run", "red", "", 8)}, []quota.Workload{*ask("w", "red", "", 1)}, "nb", nil,
		},
		"the user's own notebook, where the user's limit is the cause": {
			[]*quota.Workload{ask("nb1", "red", "bob", 2), ask("nb2", "blue", "ann", 2)},
			[]quota.Workload{*ask("w", "blue", "ann", 1)},
			"nb1 nb2",
			[]string{"w: nb2"},
		},
		"those that wait in their order, and what is left serves the next": {
			[]*quota.Workload{ask("nb1", "red", "", 2), ask("nb2", "red", "", 1), ask("run", "red", "", 5)},
			[]quota.Workload{*ask("w1", "red", "", 1), *ask("w2", "red", "", 1), *ask("w3", "red", "", 2), *ask("w4", "red", "", 1)},
			"nb1 nb2",
			[]string{"w1: nb1", "w4: nb2"},
		},
		"a pod that is gone by now": {
			[]*quota.Workload{ask("run", "red", "", 8)}, []quota.Workload{*ask("w", "red", "", 1)}, "nb", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := quota.NewBook(quota.NewTree(specs))
			for _, w := range c.holds {
				holds(b, w, "")
			}
			var got []string
			for _, way := range b.GiveWay(c.waiting, strings.Fields(c.idle)) {
				got = append(got, way.ID+": "+strings.Join(way.Pods, " "))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if !b.Recount() {
				t.Error("the Book has changed")
			}
		})
	}
}

// TestGiveWayAgreesWithAllSubsets compares GiveWay for one workload with a search through all sets of
// idle notebooks: it finds one if there is one, and none of which a pod could be left out.
func TestGiveWayAgreesWithAllSubsets(t *testing.T) {
	found := 0
	for seed := range uint64(200) {
		w := &world{T: t, seed: seed, chance: rand.New(rand.NewPCG(seed, 21)), works: map[string]*quota.Workload{}, now: epoch}
		w.b = quota.NewBook(quota.NewTree(w.trees()))
		w.leaves = w.b.Tree().Names()
		for range 30 {
			w.step()
		}
		var idle []string
		for _, h := range w.b.Holders() {
			if len(idle) < 8 && w.chance.IntN(2) == 0 {
				idle = append(idle, h.ID)
			}
		}
		a := w.ask()
		fits := func(set uint) bool {
			c := w.b.Without(func(id string) bool {
				for k := range idle {
					if set&(1<<k) != 0 && idle[k] == id {
						return true
					}
				}
				return false
			})
			return c.Try(a).Cause == quota.None
		}
		least := uint(1<<len(idle) - 1)
		can := fits(least)
		ways := w.b.GiveWay([]quota.Workload{*a}, idle)
		switch {
		case fits(0) && len(ways) > 0:
			t.Fatalf("seed %d: there is quota, and %v give way", seed, ways[0].Pods)
		case !fits(0) && can != (len(ways) == 1):
			t.Fatalf("seed %d: %v give way; a set that helps exists: %v", seed, ways, can)
		case len(ways) == 0:
			continue
		}
		found++
		set := uint(0)
		for k := range idle {
			for _, id := range ways[0].Pods {
				if id == idle[k] {
					set |= 1 << k
				}
			}
		}
		if !fits(set) || bits.OnesCount(set) != len(ways[0].Pods) {
			t.Fatalf("seed %d: with %v gone the workload does not fit", seed, ways[0].Pods)
		}
		for k := range idle {
			if set&(1<<k) != 0 && fits(set&^(1<<k)) {
				t.Fatalf("seed %d: %s need not give way", seed, idle[k])
			}
		}
	}
	if found < 10 {
		t.Errorf("notebooks gave way in %d trees only: the test shows little", found)
	}
}
