package placement_test

import (
	"testing"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
)

// TestSharesFillTheGPUsThatAreBegun places shares of one size, one after the
// other, on a node of eight GPUs, with nothing else ever asked for: no more GPUs
// are begun than it takes, so that who comes next finds whole ones.
func TestSharesFillTheGPUsThatAreBegun(t *testing.T) {
	for _, tt := range []struct {
		name    string
		request cluster.Request
		perGPU  int
	}{
		{"halves", cluster.Request{GPUs: 1, MilliGPU: 500}, 2},
		{"quarters", cluster.Request{GPUs: 1, MilliGPU: 250}, 4},
		{"tenths", cluster.Request{GPUs: 1, MilliGPU: 100}, 10},
		{"halves by memory", cluster.Request{GPUs: 1, GPUMemoryBytes: 20 << 30}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			product, ok := gpu.Find("NVIDIA A100-SXM4-40GB")
			if !ok {
				t.Fatal("no such product")
			}
			s, err := cluster.New([]cluster.Spec{{Name: "n", CPUMilli: 96000, MemoryBytes: 680 << 30, GPUs: gpu.New("n", product, 8)}})
			if err != nil {
				t.Fatal(err)
			}
			x := placement.NewIndex(s, placement.NewBerth(placement.Setup{Cluster: s}, placement.DefaultParams()), nil, nil)
			for n := 1; n <= 8*tt.perGPU; n++ {
				x.Arrive(&tt.request)
				if _, ok, err := placement.Place(x, &tt.request); !ok || err != nil {
					t.Fatalf("share %d: placed %v, %v", n, ok, err)
				}
				begun := 8 - int(s.Node(0).Idle)
				if want := (n + tt.perGPU - 1) / tt.perGPU; begun != want {
					t.Fatalf("%d shares, %d to a GPU, are on %d GPUs, want %d", n, tt.perGPU, begun, want)
				}
			}
		})
	}
}
