package placement_test

import (
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/sim/baseline"
)

// soon is a Tuning that is small enough for tests.
func soon() placement.Tuning {
	t := baseline.Tuning()
	t.First, t.Again, t.Times = 60, 2, 3
	t.Trials, t.Sequences, t.Rounds, t.Nodes = 12, 2, 2, 30
	return t
}

func tuned(s placement.Setup) placement.Policy {
	return placement.NewTuned(s, placement.DefaultParams(), soon())
}

// stream returns arrivals of a few shapes.
func stream(s *cluster.Snapshot, seed int64, n int) []cluster.Request {
	rng := rand.New(rand.NewSource(seed))
	shapes := make([]cluster.Request, 20)
	for i := range shapes {
		shapes[i] = randomRequest(s, rng)
	}
	out := make([]cluster.Request, n)
	for i := range out {
		out[i] = shapes[rng.Intn(len(shapes))]
	}
	return out
}

// play places arrivals one by one. Refused ones have Node -1.
func play(t *testing.T, x placement.Placer, arrivals []cluster.Request) []cluster.Placement {
	t.Helper()
	var out []cluster.Placement
	for i := range arrivals {
		x.Arrive(&arrivals[i])
		p, ok, err := placement.Place(x, &arrivals[i])
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			x.Refuse(&arrivals[i])
			p.Node = -1
		}
		out = append(out, p)
	}
	return out
}

func TestTunedDependsOnNothingThatComesLater(t *testing.T) {
	for seed := range int64(4) {
		s := randomCluster(t, rand.New(rand.NewSource(seed)), 50)
		const same = 200 // the first two tunings are at 60 and 120, the third at 240
		one, two := stream(s, seed, 300), stream(s, seed+100, 300)
		copy(two, one[:same])
		var got [2][]cluster.Placement
		for i, arrivals := range [][]cluster.Request{one, two} {
			c := s.Clone()
			got[i] = play(t, placement.NewIndex(c, tuned(placement.Setup{Cluster: c}), nil, nil), arrivals)[:same]
		}
		if diff := cmp.Diff(got[0], got[1]); diff != "" {
			t.Fatalf("seed %d: other arrivals later, other decisions before:\n%s", seed, diff)
		}
	}
}

func TestTunedIsDeterministicAndItsIndexEqualsTheScan(t *testing.T) {
	for seed := range int64(4) {
		s := randomCluster(t, rand.New(rand.NewSource(seed)), 50)
		arrivals := stream(s, seed, 300)
		fast, slow := s.Clone(), s.Clone()
		a, b := tuned(placement.Setup{Cluster: fast}), tuned(placement.Setup{Cluster: slow})
		x := play(t, placement.NewIndex(fast, a, nil, nil), arrivals)
		y := play(t, placement.NewScan(slow, b, nil, nil), arrivals)
		if diff := cmp.Diff(y, x); diff != "" {
			t.Fatalf("seed %d: -scan +index:\n%s", seed, diff)
		}
		if diff := cmp.Diff(a.(*placement.Tuned).Params(), b.(*placement.Tuned).Params()); diff != "" {
			t.Fatalf("seed %d: equal arrivals, other constants:\n%s", seed, diff)
		}
	}
}

func TestTunedTunes(t *testing.T) {
	share := func(milli int32) cluster.Request {
		return cluster.Request{CPUMilli: 1000, GPUs: 1, MilliGPU: milli}
	}
	tests := map[string]struct {
		arrivals int
		request  cluster.Request
		tunings  int
		changes  bool
	}{
		"not before the first arrivals have come": {59, share(300), 0, false},
		"once they have":                                  {60, share(300), 1, true},
		"again when twice as many have come":              {120, share(300), 2, true},
		"as often as it is told and no more":              {900, share(300), 3, true},
		"nothing where nobody asks for a GPU":             {60, cluster.Request{CPUMilli: 1000}, 1, false},
		"also where shares are by memory":                 {60, cluster.Request{GPUs: 1, GPUMemoryBytes: 4 << 30}, 1, true},
		"also where MIG devices are all that is wanted":   {60, cluster.Request{GPUs: 1, Profile: "1g.5gb"}, 1, true},
		"nothing where no GPU of the cluster would serve": {60, cluster.Request{GPUs: 1, Profile: "1g.5gb", Products: cluster.NoProduct}, 1, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := randomCluster(t, rand.New(rand.NewSource(1)), 40)
			tunings := 0
			p := tuned(placement.Setup{Cluster: s, Tuning: func(tune func()) { tunings++; tune() }})
			for range test.arrivals {
				p.Arrive(&test.request)
			}
			changed := !cmp.Equal(p.(*placement.Tuned).Params(), placement.DefaultParams())
			if tunings != test.tunings || changed && !test.changes {
				t.Errorf("%d tunings, constants changed %v; want %d, %v", tunings, changed, test.tunings, test.changes)
			}
		})
	}
}

func TestTunedRefusesNothingThatFits(t *testing.T) {
	rng := rand.New(rand.NewSource(9))
	s := randomCluster(t, rng, 40)
	x := placement.NewIndex(s, tuned(placement.Setup{Cluster: s}), nil, nil)
	for _, r := range stream(s, 9, 600) {
		fits := false
		for i := range s.Len() {
			fits = fits || placement.Fit(s, i, &r) == placement.Fits
		}
		x.Arrive(&r)
		if _, ok, err := placement.Place(x, &r); ok != fits || err != nil {
			t.Fatalf("%+v: fits %v, placed %v, %v", r, fits, ok, err)
		}
	}
}
