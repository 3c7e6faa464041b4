package view_test

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/view"
)

// TestClusterAddsUp checks on random clusters that held, free, broken and
// closed are never negative and add up to what there is, and that the order of
// nodes and pods does not matter.
func TestClusterAddsUp(t *testing.T) {
	for seed := range int64(300) {
		r := rand.New(rand.NewSource(seed))
		nodes, pods := randomCluster(r)
		v := view.Cluster(nodes, pods)
		sums := append([]devices.Node{{Name: "total", Count: v.Total}}, v.Nodes...)
		for _, n := range sums {
			c := n.Count
			if min(c.Held, c.Free, c.Broken, c.Closed) < 0 || c.Held+c.Free+c.Broken+c.Closed != 1000*int64(c.Physical) {
				t.Fatalf("seed %d, %s: held %d + free %d + broken %d + closed %d, want 1000 x %d GPUs",
					seed, n.Name, c.Held, c.Free, c.Broken, c.Closed, c.Physical)
			}
			var each int64
			for _, g := range n.GPUs {
				each += g.Held
			}
			if each > c.Held {
				t.Fatalf("seed %d, %s: GPUs hold %d, the node %d", seed, n.Name, each, c.Held)
			}
		}
		r.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		r.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		if diff := cmp.Diff(v, view.Cluster(nodes, pods), cmpopts.IgnoreUnexported(devices.Holder{})); diff != "" {
			t.Fatalf("seed %d: another order gives another view:\n%s", seed, diff)
		}
	}
}

func randomCluster(r *rand.Rand) ([]*v1.Node, []*v1.Pod) {
	gpu, mig := api.ResourceGPU, "nvidia.com/mig-1g.5gb"
	var nodes []*v1.Node
	var pods []*v1.Pod
	for i := range 1 + r.Intn(4) {
		name := fmt.Sprintf("n%d", i)
		count := 1 + r.Intn(8)
		gpus := kubetest.A100s(name, count)
		for j := range gpus {
			gpus[j].Healthy = r.Intn(5) > 0
		}
		var n *v1.Node
		ids := func(g int) string { return fmt.Sprintf("GPU-%s-%d", name, g) }
		resource := gpu
		switch r.Intn(5) {
		case 0:
			n = kubetest.Inventory(name, gpus, gpu, count)
		case 1:
			n = kubetest.Inventory(name, kubetest.Share(gpus, 3), gpu, 3*count)
			ids = func(g int) string { return fmt.Sprintf("GPU-%s-%d::%d", name, g, r.Intn(3)) }
		case 2:
			n, resource = kubetest.Inventory(name, kubetest.Cut(name, gpus), mig, 7*count), mig
			ids = func(g int) string { return fmt.Sprintf("MIG-%s-%d-%d", name, g, r.Intn(7)) }
		case 3:
			n = kubetest.Foreign(name, kubetest.With(kubetest.Product("Tesla-T4-SHARED", count, 15360), api.LabelReplicas, "3"), gpu, 3*count)
			n.Status.Allocatable = kubetest.Amounts(gpu, r.Intn(3*count+1))
		default:
			n, resource = kubetest.Foreign(name, nil, gpu, r.Intn(3), mig, r.Intn(20)), mig
		}
		n.Spec.Unschedulable = r.Intn(6) == 0
		nodes = append(nodes, n)
		for j := range r.Intn(12) {
			p := kubetest.Pod(fmt.Sprintf("%s-p%02d", name, j), name, resource, 1+r.Intn(3))
			switch r.Intn(4) {
			case 0:
				p = kubetest.Observed(p, resource, ids(r.Intn(count)))
			case 1:
				p = kubetest.Committed(p, fmt.Sprintf(`{"c":[{"uuid":%q,"milliGPU":%d}]}`, ids(r.Intn(count)), r.Intn(1200)))
			case 2:
				p = kubetest.Phase(p, v1.PodSucceeded)
			}
			pods = append(pods, p)
		}
	}
	return nodes, pods
}

// BenchmarkCluster reads 1,000 nodes of 8 GPUs and 8,000 pods.
func BenchmarkCluster(b *testing.B) {
	var nodes []*v1.Node
	var pods []*v1.Pod
	for i := range 1000 {
		name := fmt.Sprintf("n%d", i)
		nodes = append(nodes, kubetest.Inventory(name, kubetest.A100s(name, 8), api.ResourceGPU, 8))
		for j := range 8 {
			p := kubetest.Pod(fmt.Sprintf("%s-%d", name, j), name, api.ResourceGPU, 1)
			pods = append(pods, kubetest.Observed(p, api.ResourceGPU, fmt.Sprintf("GPU-%s-%d", name, j)))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if v := view.Cluster(nodes, pods); v.Total.Held != 8_000_000 {
			b.Fatalf("held %d, want 8,000,000 milli-GPUs", v.Total.Held)
		}
	}
}
