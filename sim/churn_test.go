package sim_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/sim"
	"berth.dev/berth/sim/baseline"
)

func TestChurnRunsAreEqualForEqualSeedsAndCountWhatCame(t *testing.T) {
	for _, workload := range []string{"default", "multigpu30"} { // with and without run times
		t.Run(workload, func(t *testing.T) {
			s, pods := small(t, workload)
			before := s.Clone()
			for _, policy := range baseline.Names() {
				maker, _ := baseline.Lookup(policy)
				a, err := sim.RunChurn(s, pods, 1.3, 3, maker)
				if err != nil {
					t.Fatal(err)
				}
				b, _ := sim.RunChurn(s, pods, 1.3, 3, maker)
				if diff := cmp.Diff(a, b); diff != "" {
					t.Errorf("%s: -first +second:\n%s", policy, diff)
				}
				if !(a.AllocatedPercent > 50 && a.AllocatedPercent <= 100) || a.MeanRunSeconds <= 0 || a.Decisions == 0 {
					t.Errorf("%s: %+v", policy, a)
				}
				for class, n := range a.Classes {
					if n.Failed > n.Pods || n.WaitSeconds < 0 || n.WaitSeconds > n.MostWaitSeconds {
						t.Errorf("%s, %s: %+v", policy, class, n)
					}
				}
			}
			if !s.Equal(before) {
				t.Error("the cluster that was handed in has changed")
			}
		})
	}
}

func TestMoreLoadFillsMore(t *testing.T) {
	s, pods := small(t, "default")
	maker, _ := baseline.Lookup("berth")
	last := 0.0
	for _, load := range []float64{0.3, 0.6, 1} {
		run, err := sim.RunChurn(s, pods, load, 3, maker)
		if err != nil {
			t.Fatal(err)
		}
		// What is asked for is load; what is placed cannot be much more.
		if run.AllocatedPercent <= last || run.AllocatedPercent > 100*load+1 {
			t.Errorf("load %v: %.2f%% allocated, %.2f%% at less load", load, run.AllocatedPercent, last)
		}
		last = run.AllocatedPercent
	}
}

func TestBadChurnIsRefused(t *testing.T) {
	s, pods := small(t, "default")
	maker, _ := baseline.Lookup("berth")
	for name, c := range map[string]sim.Churn{
		"no load":         {Cluster: s, Pods: pods, Policy: maker},
		"too little time": {Cluster: s, Pods: pods, Policy: maker, Load: 1, Runs: 0.5},
	} {
		if _, err := c.Run(1); err == nil {
			t.Errorf("%s: it ran", name)
		}
	}
}
