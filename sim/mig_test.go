package sim_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/sim"
	"berth.dev/berth/sim/baseline"
)

// acceptance is the mean over seeds.
func acceptance(t testing.TB, mix sim.MIGMix, recut cluster.Recut, load float64, policy string) float64 {
	t.Helper()
	maker, err := baseline.Lookup(policy)
	if err != nil {
		t.Fatal(err)
	}
	mean := 0.0
	for seed := int64(42); seed <= 43; seed++ {
		run, err := sim.RunMIG(mix, recut, load, seed, maker)
		if err != nil {
			t.Fatal(err)
		}
		mean += run.Acceptance() / 2
	}
	return mean
}

// TestMIGDevicesKeepValuableGeometriesOpen compares acceptance with that of
// first fit and best fit where GPUs may be cut anew around held devices.
func TestMIGDevicesKeepValuableGeometriesOpen(t *testing.T) {
	for _, mix := range sim.MIGMixes() {
		t.Run(mix.Name, func(t *testing.T) {
			first := acceptance(t, mix, cluster.RecutFree, 1.3, "first-fit")
			best := acceptance(t, mix, cluster.RecutFree, 1.3, "bestfit")
			berth := acceptance(t, mix, cluster.RecutFree, 1.3, "berth")
			if berth < first || berth < best-0.1 {
				t.Errorf("%.2f%% accepted; first-fit %.2f%%, bestfit %.2f%%", berth, first, best)
			}
		})
	}
}

// TestCuttingAnewAcceptsMore: devices that cannot be cut anew fit fewer
// requests, and GPUs that may only while they are empty lie between.
func TestCuttingAnewAcceptsMore(t *testing.T) {
	mix, last := sim.MIGMixes()[0], 0.0
	for _, recut := range []cluster.Recut{cluster.RecutNever, cluster.RecutEmpty, cluster.RecutFree} {
		got := acceptance(t, mix, recut, 1, "berth")
		if got <= last {
			t.Errorf("recut %d: %.2f%% accepted, %.2f%% with less freedom", recut, got, last)
		}
		last = got
	}
}

func TestMIGRunsAreEqualForEqualSeeds(t *testing.T) {
	for _, policy := range baseline.Names() {
		maker, _ := baseline.Lookup(policy)
		a, err := sim.RunMIG(sim.MIGMixes()[0], cluster.RecutEmpty, 1, 7, maker)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := sim.RunMIG(sim.MIGMixes()[0], cluster.RecutEmpty, 1, 7, maker)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%s: -first +second:\n%s", policy, diff)
		}
	}
}

// BenchmarkMIG gives the percentage of requests accepted at 0.85 and 1.3 times
// the cluster, by mix, by when GPUs may be cut anew, and by policy.
func BenchmarkMIG(b *testing.B) {
	for _, mix := range sim.MIGMixes() {
		for recut, name := range []string{"never", "empty", "free"} {
			for _, policy := range []string{"berth", "bestfit", "first-fit"} {
				b.Run(fmt.Sprintf("%s/recut=%s/%s", mix.Name, name, policy), func(b *testing.B) {
					for b.Loop() {
						b.ReportMetric(acceptance(b, mix, cluster.Recut(recut), 0.85, policy), "percent@85")
						b.ReportMetric(acceptance(b, mix, cluster.Recut(recut), 1.3, policy), "percent@130")
					}
				})
			}
		}
	}
}
