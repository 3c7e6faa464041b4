package placement_test

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/sim/baseline"
)

// t4s is a node with so many T4, each offered as so many devices.
func t4s(name string, n int, shares int32) cluster.Spec {
	spec := cluster.Spec{Name: name, CPUMilli: 64_000, MemoryBytes: 256 << 30, Shares: shares}
	for j := range n {
		spec.GPUs = append(spec.GPUs, gpu.GPU{Index: j, UUID: fmt.Sprint(name, j), Product: "Tesla T4", MemoryBytes: 15 << 30, Healthy: true, NUMANode: -1})
	}
	return spec
}

// TestSeveralGPUsAreSharesLast places pods that ask for nvidia.com/gpu, one after the
// other. Quarters of one GPU do not add up to more of it.
func TestSeveralGPUsAreSharesLast(t *testing.T) {
	does := func(spec cluster.Spec) cluster.Spec {
		spec.SharesDo = true
		return spec
	}
	for _, tt := range []struct {
		name     string
		nodes    []cluster.Spec
		gpus     int32
		sharesDo bool
		want     []string // node and GPUs of each pod
	}{
		{
			"GPUs before shares, and then shares of different GPUs",
			[]cluster.Spec{t4s("a", 4, 4), t4s("b", 8, 1)},
			3, false,
			[]string{"b [0 1 2]", "b [3 4 5]", "a [0 1 2]"},
		},
		// Of the 8 quarters 2 are on each GPU, so 6 must be stacked, as evenly as can be.
		{"shares of one GPU where there are not enough GPUs", []cluster.Spec{t4s("a", 4, 2)}, 6, false, []string{"a [0 1 2 3 0 1]"}},
		{"more GPUs with shares before fewer", []cluster.Spec{t4s("a", 1, 4), t4s("b", 3, 4)}, 3, false, []string{"b [0 1 2]", "b [0 1 2]"}},
		{"the pod says that shares do", []cluster.Spec{t4s("a", 4, 4), t4s("b", 8, 1)}, 3, true, []string{"a [0 1 2]"}},
		{"the node says that its shares do", []cluster.Spec{does(t4s("a", 4, 4)), t4s("b", 8, 1)}, 3, false, []string{"a [0 1 2]"}},
		{"one is placed as before, where most room is left", []cluster.Spec{t4s("a", 4, 4), t4s("b", 8, 1)}, 1, false, []string{"a [0]", "a [0]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := cluster.New(tt.nodes)
			if err != nil {
				t.Fatal(err)
			}
			x := placement.NewIndex(s, placement.NewBerth(placement.Setup{Cluster: s}, placement.DefaultParams()), nil, nil)
			var got []string
			for range tt.want {
				r := cluster.Request{GPUs: tt.gpus, MilliGPU: cluster.Whole, Units: true, SharesDo: tt.sharesDo}
				x.Arrive(&r)
				p, ok, err := placement.Place(x, &r)
				if err != nil || !ok {
					t.Fatal(ok, err)
				}
				var on []int32
				for _, d := range p.Devices {
					on = append(on, d.GPU)
				}
				got = append(got, fmt.Sprint(s.Node(p.Node).Name, " ", on))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestNoPolicyGivesSharesBeforeGPUs places several GPUs at a time on random clusters,
// by every policy: shares only where no node has the GPUs.
func TestNoPolicyGivesSharesBeforeGPUs(t *testing.T) {
	for _, name := range baseline.Names() {
		shares, whole := 0, 0
		for seed := range int64(30) {
			rng := rand.New(rand.NewSource(seed))
			var nodes []cluster.Spec
			for i := range 6 {
				nodes = append(nodes, t4s(fmt.Sprint("n", i), 1+rng.Intn(8), []int32{1, 1, 2, 4}[rng.Intn(4)]))
			}
			s, err := cluster.New(nodes)
			if err != nil {
				t.Fatal(err)
			}
			policy, err := baseline.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			x := placement.NewIndex(s, policy(placement.Setup{Cluster: s, Typical: typical(s, seed), Rand: rng.Intn}), nil, rng.Intn)
			for range 12 {
				r := cluster.Request{GPUs: 1 + rng.Int31n(4), MilliGPU: cluster.Whole, Units: true}
				possible := false
				for i := range s.Len() {
					possible = possible || !s.SharesLast(i, &r) && placement.Fit(s, i, &r) == placement.Fits
				}
				p, ok, err := placement.Place(x, &r)
				switch {
				case err != nil:
					t.Fatal(err)
				case !ok || r.GPUs == 1:
				case s.SharesLast(p.Node, &r) && possible:
					t.Fatalf("%s, seed %d: %d GPUs are shares of node %s, and another has GPUs", name, seed, r.GPUs, s.Node(p.Node).Name)
				case s.SharesLast(p.Node, &r):
					shares++
				default:
					whole++
				}
			}
		}
		if shares == 0 || whole == 0 {
			t.Errorf("%s: %d times shares, %d times GPUs: too few to tell", name, shares, whole)
		}
	}
}
