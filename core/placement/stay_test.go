package placement_test

import (
	"fmt"
	"testing"
	"time"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
)

// TestPodsGoWhereOthersEndNoEarlier places one GPU on nodes of 4, of which each holds one GPU until the given second.
func TestPodsGoWhereOthersEndNoEarlier(t *testing.T) {
	const idle, unknown = -1, 0
	for _, tt := range []struct {
		name string
		held []int64 // of each node
		stay placement.Stay
		want int
	}{
		{"all end sooner: the one that is prolonged least", []int64{300, 500, 400}, placement.Stay{Ends: 1000, Run: 900}, 1},
		{"one ends later", []int64{300, 1200, 400}, placement.Stay{Ends: 1000, Run: 900}, 1},
		{"two end later: the sooner of them", []int64{300, 3000, 1200}, placement.Stay{Ends: 1000, Run: 900}, 2},
		{"an idle node is in use for the whole run", []int64{idle, 300, idle}, placement.Stay{Ends: 1000, Run: 900}, 1},
		{"what ends late is better beside what may stay than on an idle node", []int64{idle, unknown, idle}, placement.Stay{Ends: 1000, Run: 900}, 1},
		{"an end that is known to be late enough is better than one that is not known", []int64{unknown, 1100, unknown}, placement.Stay{Ends: 1000, Run: 900}, 1},
		{"what may stay is better than what ends at once", []int64{110, unknown, 120}, placement.Stay{Ends: 1000, Run: 900}, 1},
		{"ends that have passed count as now: the first node", []int64{50, 90, 20}, placement.Stay{Ends: 1000, Run: 900}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a100, _ := gpu.Find("NVIDIA A100-SXM4-40GB")
			var specs []cluster.Spec
			for i := range tt.held {
				name := fmt.Sprintf("n%d", i)
				specs = append(specs, cluster.Spec{Name: name, CPUMilli: 64_000, GPUs: gpu.New(name, a100, 4)})
			}
			s, err := cluster.New(specs)
			if err != nil {
				t.Fatal(err)
			}
			one := cluster.Request{GPUs: 1, MilliGPU: cluster.Whole}
			for i, ends := range tt.held {
				p := cluster.Placement{Node: i, Request: one, Devices: []cluster.Device{{MilliGPU: cluster.Whole, MemoryBytes: s.Cards(i)[0].MemoryBytes}}, Ends: ends}
				if ends == idle {
					continue
				}
				if err := s.Assume(&p); err != nil {
					t.Fatal(err)
				}
			}
			x := placement.NewIndex(s, placement.NewBerth(placement.Setup{Cluster: s}, placement.DefaultParams()), nil, nil)
			x.Arrive(&one)
			if got, ok := x.BestFor(&one, tt.stay); got != tt.want || !ok {
				t.Errorf("node %d, %v; want %d", got, ok, tt.want)
			}
		})
	}
}

func TestStayOf(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, tt := range map[string]struct {
		most []time.Duration
		want placement.Stay
	}{
		"of none":                          {},
		"of one":                           {[]time.Duration{time.Minute}, placement.Stay{Ends: 1060, Run: 60}},
		"until the last has ended":         {[]time.Duration{time.Minute, time.Hour, time.Second}, placement.Stay{Ends: 4600, Run: 3600}},
		"one declares nothing":             {[]time.Duration{time.Minute, 0}, placement.Stay{}},
		"what runs for less than a second": {[]time.Duration{time.Millisecond}, placement.Stay{Ends: 1000, Run: 1}},
	} {
		if got := placement.StayOf(now, tt.most...); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}
