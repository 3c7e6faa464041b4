package cluster_test

import (
	"testing"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
)

func TestStates(t *testing.T) {
	s, err := cluster.New([]cluster.Spec{{Name: "n", CPUMilli: 1000, MemoryBytes: 1 << 40, Recut: cluster.RecutFree, GPUs: []gpu.GPU{
		{Index: 0, UUID: "a", Product: "NVIDIA A100-SXM4-40GB", MemoryBytes: 40 << 30, Healthy: true},
		{Index: 1, UUID: "b", Product: "NVIDIA A100-SXM4-40GB", MemoryBytes: 40 << 30, Healthy: true},
		{Index: 2, UUID: "c", Product: "NVIDIA A100-SXM4-40GB", MemoryBytes: 40 << 30, Healthy: true},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name   string
		take   cluster.Device
		mig    string
		starts []int
		want   cluster.States
	}{
		{"an empty cluster is free", cluster.Device{}, "", nil, cluster.States{Free: 3}},
		{"half of a GPU shares it", cluster.Device{GPU: 0, MilliGPU: 500, MemoryBytes: 20 << 30}, "", nil, cluster.States{Shared: 1, Free: 2}},
		{"two halves allocate it", cluster.Device{GPU: 0, MilliGPU: 500, MemoryBytes: 20 << 30}, "", nil, cluster.States{Allocated: 1, Free: 2}},
		{"all of the memory allocates a GPU", cluster.Device{GPU: 1, MilliGPU: 100, MemoryBytes: 40 << 30}, "", nil, cluster.States{Allocated: 2, Free: 1}},
		{"some MIG devices share it", cluster.Device{GPU: 2}, "1g.5gb", []int{0, 1, 2, 3, 4, 5}, cluster.States{Allocated: 2, Shared: 1}},
		{"all seven slices allocate it", cluster.Device{GPU: 2}, "1g.5gb", []int{6}, cluster.States{Allocated: 3}},
	}
	for _, step := range steps {
		if step.take.MilliGPU > 0 {
			assume(t, s, cluster.Request{GPUs: 1, MilliGPU: step.take.MilliGPU}, step.take)
		}
		for _, start := range step.starts {
			p := s.ProfileNumber(s.GPUs(0)[2].Product, step.mig)
			assume(t, s, cluster.Request{GPUs: 1, Profile: step.mig}, s.MIGDevice(0, 2, p, start))
		}
		if got := s.States(); got != step.want {
			t.Fatalf("%s: %+v, want %+v", step.name, got, step.want)
		}
	}
	s.SetHealthy(0, 1, false)
	if got, want := s.States(), (cluster.States{Allocated: 2, Unhealthy: 1}); got != want {
		t.Errorf("a GPU that failed: %+v, want %+v", got, want)
	}
}

func assume(t *testing.T, s *cluster.Snapshot, r cluster.Request, d cluster.Device) {
	t.Helper()
	p := cluster.Placement{Request: r, Devices: []cluster.Device{d}}
	if err := s.Assume(&p); err != nil {
		t.Fatal(err)
	}
}
