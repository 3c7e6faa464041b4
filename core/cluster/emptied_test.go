package cluster_test

import (
	"fmt"
	"testing"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
)

// mixed makes nodes of one or two GPUs, of two products in turn.
func mixed(t *testing.T, nodes int) *cluster.Snapshot {
	t.Helper()
	var specs []cluster.Spec
	for i := range nodes {
		spec := cluster.Spec{Name: fmt.Sprint("n", i), CPUMilli: 8000, MemoryBytes: 64 << 30}
		for j := range 1 + i%2 {
			spec.GPUs = append(spec.GPUs, gpu.GPU{
				Index: j, Product: []string{"Tesla T4", "NVIDIA H100 80GB HBM3"}[i%2], MemoryBytes: 16 << 30, Healthy: true,
			})
		}
		specs = append(specs, spec)
	}
	s, err := cluster.New(specs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEmptied(t *testing.T) {
	s := mixed(t, 7)
	fresh := s.Clone()
	for i := range s.Len() {
		r := cluster.Request{CPUMilli: 1000, MemoryBytes: 1 << 30, GPUs: 1, MilliGPU: 300}
		d := cluster.Device{MilliGPU: 300, MemoryBytes: 1 << 30} // not in proportion: a share by memory
		if err := s.Assume(&cluster.Placement{Node: i, Request: r, Devices: []cluster.Device{d}}); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("of every node is the snapshot before anything was held", func(t *testing.T) {
		for _, every := range []int{0, 1} {
			if !s.Emptied(every).Equal(fresh) {
				t.Errorf("every %d: it differs", every)
			}
		}
	})
	t.Run("of every third node has those nodes, and their products keep their numbers", func(t *testing.T) {
		e := s.Emptied(3)
		if e.Len() != 3 || e.TotalGPUs() != 1+2+1 || e.ProductGPUs(0) != 2 || e.ProductGPUs(1) != 2 {
			t.Fatalf("%d nodes, %d GPUs: %d and %d of the products", e.Len(), e.TotalGPUs(), e.ProductGPUs(0), e.ProductGPUs(1))
		}
		for k, name := range []string{"n0", "n3", "n6"} {
			if i, ok := e.Find(name); !ok || i != k {
				t.Errorf("node %s is at %d, %v; want %d", name, i, ok, k)
			}
		}
		h100, _ := s.Products("NVIDIA H100 80GB HBM3")
		if !h100.Has(e.GPUs(1)[0].Product) || h100.Has(e.GPUs(0)[0].Product) {
			t.Error("the products have other numbers")
		}
	})
	t.Run("changes nothing of the snapshot it is of", func(t *testing.T) {
		e := s.Emptied(1)
		r := cluster.Request{CPUMilli: 8000}
		if err := e.Assume(&cluster.Placement{Node: 0, Request: r}); err != nil {
			t.Fatal(err)
		}
		if s.Node(0).FreeCPUMilli != 7000 {
			t.Errorf("%d milli-CPU are free; want 7000", s.Node(0).FreeCPUMilli)
		}
	})
}
