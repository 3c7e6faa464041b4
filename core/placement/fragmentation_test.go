package placement_test

import (
	"math"
	"math/rand"
	"testing"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
)

// card makes GPU i of a product with 16 GiB.
func card(i int) gpu.GPU {
	return gpu.GPU{Index: i, UUID: string(rune('a' + i)), Product: "Tesla T4", MemoryBytes: 16 << 30, Healthy: true}
}

func TestFragmentation(t *testing.T) {
	half := placement.Class{Request: cluster.Request{GPUs: 1, MilliGPU: 500}, Weight: 1}
	whole := placement.Class{Request: cluster.Request{GPUs: 1, MilliGPU: 1000}, Weight: 1}
	both := placement.Class{Request: cluster.Request{GPUs: 2, MilliGPU: 1000}, Weight: 1}
	busy := placement.Class{Request: cluster.Request{GPUs: 1, MilliGPU: 500, CPUMilli: 99000}, Weight: 1}
	none := placement.Class{Request: cluster.Request{CPUMilli: 1000}, Weight: 50}
	rare := placement.Class{Request: cluster.Request{GPUs: 2, MilliGPU: 1000}, Weight: 0.01}
	tests := []struct {
		name  string
		mix   []placement.Class
		taken []int32 // milli-GPUs of the two GPUs
		want  float64
	}{
		{"an empty node is all useful", []placement.Class{half, whole}, nil, 0},
		{"nothing free is not fragmented", []placement.Class{whole}, []int32{1000, 1000}, 0},
		{"nothing asked is not fragmented", nil, []int32{500}, 0},
		{"a rest too small for every request is lost", []placement.Class{whole}, []int32{500, 1000}, 1},
		{"a rest counts as lost for those that it is too small for", []placement.Class{half, whole}, []int32{500, 1000}, 0.5},
		{"a GPU beside is not lost with it", []placement.Class{whole}, []int32{500, 0}, 1.0 / 3},
		{"a request that fits no node loses all of it", []placement.Class{both}, []int32{500, 0}, 1},
		{"too little CPU on the node loses its GPUs", []placement.Class{busy}, nil, 1},
		{"requests for no GPU do not count", []placement.Class{whole, none}, []int32{500, 0}, 1.0 / 3},
		{"the rarest do not count", []placement.Class{half, rare}, []int32{500, 0}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := cluster.New([]cluster.Spec{{Name: "n", CPUMilli: 64000, MemoryBytes: 1 << 40, GPUs: []gpu.GPU{card(0), card(1)}}})
			if err != nil {
				t.Fatal(err)
			}
			for j, milli := range tt.taken {
				if milli == 0 {
					continue
				}
				p := cluster.Placement{Request: cluster.Request{GPUs: 1, MilliGPU: milli}, Devices: []cluster.Device{
					{GPU: int32(j), MilliGPU: milli, MemoryBytes: cluster.ShareBytes(milli, 16<<30)},
				}}
				if err := s.Assume(&p); err != nil {
					t.Fatal(err)
				}
			}
			if got := placement.Fragmentation(s, placement.NewMix(tt.mix...)); math.Abs(got-tt.want) > 1e-9 {
				t.Errorf("fragmentation %v, want %v", got, tt.want)
			}
		})
	}
}

func TestUnhealthyGPUsAreNotFree(t *testing.T) {
	s, err := cluster.New([]cluster.Spec{{Name: "n", CPUMilli: 64000, MemoryBytes: 1 << 40, GPUs: []gpu.GPU{card(0), card(1)}}})
	if err != nil {
		t.Fatal(err)
	}
	s.SetHealthy(0, 0, false)
	mix := placement.NewMix(placement.Class{Request: cluster.Request{GPUs: 2, MilliGPU: 1000}, Weight: 1})
	if got := placement.Fragmentation(s, mix); got != 1 {
		t.Errorf("fragmentation %v, want 1: the GPU that is left is too few for every request", got)
	}
	s.SetHealthy(0, 1, false)
	if got := placement.Fragmentation(s, mix); got != 0 {
		t.Errorf("fragmentation %v, want 0: nothing is free", got)
	}
}

// TestFragmentationStaysARatio fills random clusters and looks at every step.
func TestFragmentationStaysARatio(t *testing.T) {
	for seed := range int64(20) {
		rng := rand.New(rand.NewSource(seed))
		s := randomCluster(t, rng, 12+rng.Intn(20))
		mix := placement.NewMix()
		x := placement.NewIndex(s, placement.NewBestFit(placement.Setup{Cluster: s}), nil, nil)
		for range 100 {
			r := randomRequest(s, rng)
			mix.Add(&r, 1)
			if _, _, err := placement.Place(x, &r); err != nil {
				t.Fatal(err)
			}
			if got := placement.Fragmentation(s, mix); got < 0 || got > 1 || math.IsNaN(got) {
				t.Fatalf("seed %d: fragmentation %v is no ratio", seed, got)
			}
		}
	}
}
