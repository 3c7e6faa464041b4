package sim_test

import (
	"testing"

	"berth.dev/berth/core/placement"
	"berth.dev/berth/sim"
	"berth.dev/berth/sim/baseline"
)

// TestTuningIsWorthIt compares one short tuning with fixed constants, where it
// matters most, and with fgd: by the GPU allocated, and by who pays for it.
func TestTuningIsWorthIt(t *testing.T) {
	s, pods := whole(t, "gpushare100")
	tuning := baseline.Tuning()
	tuning.Times, tuning.Trials = 1, 45
	tuned, err := sim.RunFGD(s, pods, 1.3, 11, func(s placement.Setup) placement.Policy {
		return placement.NewTuned(s, placement.DefaultParams(), tuning)
	})
	if err != nil {
		t.Fatal(err)
	}
	fixed, fgd := runFGD(t, s, pods, "berth", 11), runFGD(t, s, pods, "fgd", 11)
	for _, at := range []int{100, 130} {
		if tuned.Allocated[at] <= fixed.Allocated[at] || fixed.Allocated[at] <= fgd.Allocated[at] {
			t.Errorf("at %d: tuned %.2f, fixed %.2f, fgd %.2f", at, tuned.Allocated[at], fixed.Allocated[at], fgd.Allocated[at])
		}
	}
	for class, most := range map[string]float64{"cpu": 4, "share<500": 1, "share>=500": 1} {
		if over := failed(&tuned, class) - failed(&fgd, class); over > most {
			t.Errorf("%s fails %.1f points more than with fgd; at most %v may", class, over, most)
		}
	}
}

// failed is the percentage of a class that was not placed.
func failed(r *sim.Run, class string) float64 {
	n := r.Failed[class]
	return 100 * float64(n.Failed) / float64(max(1, n.Pods))
}
