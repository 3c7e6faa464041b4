package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
)

// TestSeveralGPUsAreNearOneAnother places whole GPUs on one node of eight: two
// cliques of four, each over two NUMA nodes.
func TestSeveralGPUsAreNearOneAnother(t *testing.T) {
	for _, tt := range []struct {
		name string
		held []int32
		want int32 // GPUs asked for
		got  []int32
	}{
		{"two of one NUMA node", nil, 2, []int32{0, 1}},
		{"two of the clique that has enough", []int32{5, 6, 7}, 2, []int32{0, 1}},
		{"two of the clique that has just enough", []int32{4, 5}, 2, []int32{6, 7}},
		{"two of the fuller NUMA node of a clique", []int32{4, 5, 6, 7, 0}, 2, []int32{2, 3}},
		{"three of one clique", []int32{0, 1}, 3, []int32{4, 5, 6}},
		{"four of one clique", []int32{2}, 4, []int32{4, 5, 6, 7}},
		{"five of both, where no clique has enough", nil, 5, []int32{0, 1, 2, 3, 4}},
		{"one is any", []int32{0}, 1, []int32{1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := cluster.Spec{Name: "n", CPUMilli: 1000, MemoryBytes: 1 << 30}
			for j := range 8 {
				spec.GPUs = append(spec.GPUs, gpu.GPU{Index: j, UUID: fmt.Sprint(j), Product: "P", MemoryBytes: 1 << 30, Healthy: true, Clique: 1 + j/4, NUMANode: j / 2})
			}
			s, err := cluster.New([]cluster.Spec{spec})
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range tt.held {
				d := cluster.Device{GPU: j, MilliGPU: cluster.Whole, MemoryBytes: 1 << 30}
				if err := s.Assume(&cluster.Placement{Request: cluster.Request{GPUs: 1, MilliGPU: cluster.Whole}, Devices: []cluster.Device{d}}); err != nil {
					t.Fatal(err)
				}
			}
			x := placement.NewIndex(s, placement.NewBerth(placement.Setup{Cluster: s}, placement.DefaultParams()), nil, nil)
			p, ok, err := placement.Place(x, &cluster.Request{GPUs: tt.want, MilliGPU: cluster.Whole})
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			var got []int32
			for _, d := range p.Devices {
				got = append(got, d.GPU)
			}
			if !slices.Equal(got, tt.got) {
				t.Errorf("got GPUs %v, want %v", got, tt.got)
			}
		})
	}
}
