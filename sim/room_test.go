package sim_test

import (
	"fmt"
	"math/rand"
	"testing"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/sim"
	"berth.dev/berth/sim/baseline"
	"berth.dev/berth/test/soak"
)

// TestRoomStaysForWholeNodes holds Berth's policy to what is left for jobs of 8 GPUs where
// nearly half of the GPUs are free: whether such jobs have come before or not, and whether
// pods ask for CPU or not; where no pod declares when it ends at the latest, where each does, and where
// they declare up to twice as long as they run. What is possible packs again what runs.
func TestRoomStaysForWholeNodes(t *testing.T) {
	maker, _ := baseline.Lookup("berth")
	seeds := soak.Pick(int64(3), 40)
	for _, tt := range []struct {
		name string
		room sim.Room
	}{
		{"no job of 8 has come, with CPU requests", sim.Room{CPUs: true, Sigma: 1.5}},
		{"no job of 8 has come, without", sim.Room{Sigma: 1.5}},
		{"jobs of 8 have come, with CPU requests", sim.Room{CPUs: true, Eights: 0.05, Sigma: 1.5}},
		{"jobs of 8 have come, without", sim.Room{Eights: 0.05, Sigma: 1.5}},
		{"little spread, no job of 8 has come, with CPU requests", sim.Room{CPUs: true, Sigma: 0.5}},
		{"little spread, jobs of 8 have come, without", sim.Room{Eights: 0.05, Sigma: 0.5}},
	} {
		for _, ends := range []struct {
			name           string
			declared, late float64
			load, least    float64 // percent of what is possible
		}{
			{"no end is declared", 0, 1, 0.55, 84},
			{"ends are declared", 1, 1, 0.55, 90},
			{"ends are declared too late", 1, 2, 0.55, 87},
			{"ends are declared, three quarters are held", 1, 1, 0.75, 78},
		} {
			t.Run(tt.name+"/"+ends.name, func(t *testing.T) {
				room := tt.room
				room.Nodes, room.Load, room.Policy, room.Declared, room.Late = 30, ends.load, maker, ends.declared, ends.late
				var places, possible, allocated float64
				for seed := int64(101); seed <= 100+seeds; seed++ {
					run, err := room.Run(seed)
					if err != nil {
						t.Fatal(err)
					}
					places, possible, allocated = places+run.Places, possible+run.Possible, allocated+run.AllocatedPercent
				}
				n := float64(seeds)
				percent := 100 * places / possible
				t.Logf("%.1f places of %.1f, %.1f %%; %.0f %% allocated", places/n, possible/n, percent, allocated/n)
				if percent < ends.least {
					t.Errorf("%.1f places for a job of 8 GPUs where %.1f are possible: %.1f %%; at least %v %% are wanted", places/n, possible/n, percent, ends.least)
				}
			})
		}
	}
}

// TestTheFirstPodsOfAClusterShareNodes places pods of one GPU and mixed CPU on a cluster
// that nothing has left yet: they must not begin all of its nodes.
func TestTheFirstPodsOfAClusterShareNodes(t *testing.T) {
	maker, _ := baseline.Lookup("berth")
	a100, ok := gpu.Find("NVIDIA A100-SXM4-80GB")
	if !ok {
		t.Fatal("no A100")
	}
	specs := make([]cluster.Spec, 25)
	for i := range specs {
		name := fmt.Sprintf("node-%d", i)
		specs[i] = cluster.Spec{Name: name, CPUMilli: 96_000, GPUs: gpu.New(name, a100, 8)}
	}
	s, err := cluster.New(specs)
	if err != nil {
		t.Fatal(err)
	}
	x := placement.NewIndex(s, maker(placement.Setup{Cluster: s}), nil, nil)
	begun := map[int]bool{}
	rng := rand.New(rand.NewSource(7))
	for i := range 64 {
		r := cluster.Request{GPUs: 1, MilliGPU: cluster.Whole, CPUMilli: int64(4000 * (1 + rng.Intn(3)))}
		x.Arrive(&r)
		placed, ok, err := placement.Place(x, &r)
		if err != nil || !ok {
			t.Fatalf("pod %d: placed %v, %v", i, ok, err)
		}
		begun[placed.Node] = true
	}
	if len(begun) > 9 {
		t.Errorf("64 pods of one GPU are on %d nodes of 8 GPUs; 8 nodes would do, and one more is accepted", len(begun))
	}
}
