package devices_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/request"
)

const mig1g = api.ResourceMIGPrefix + "1g.5gb"

func TestHolds(t *testing.T) {
	const product = "NVIDIA-A100-SXM4-40GB"
	whole := kubetest.Inventory("n", kubetest.A100s("n", 2), api.ResourceGPU, 2)
	cut := kubetest.Inventory("n", kubetest.Cut("n", kubetest.A100s("n", 1)), mig1g, 7)
	shared := kubetest.Inventory("n", kubetest.Share(kubetest.A100s("n", 2), 4), api.ResourceGPU, 8)
	a30 := kubetest.Foreign("n", kubetest.With(kubetest.Product("NVIDIA-A30", 1, 24576), "nvidia.com/mig.capable", "true"), api.ResourceMIGPrefix+"1g.6gb", 4)
	single := kubetest.Foreign("n", kubetest.With(kubetest.Product("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 7, 4864), "nvidia.com/mig.strategy", "single", "nvidia.com/gpu.slices.gi", "1"), api.ResourceGPU, 7)
	foreign := kubetest.Foreign("n", kubetest.With(kubetest.Product("Tesla-T4-SHARED", 2, 15360), api.LabelReplicas, "4"), api.ResourceGPU, 8)
	for _, tt := range []struct {
		name string
		node *v1.Node
		pod  *v1.Pod
		want []quota.Piece
	}{
		{"a pod without GPUs holds nothing", whole, kubetest.Pod("p", "n", "cpu", 1), nil},
		{
			"committed GPUs", whole, kubetest.Committed(kubetest.Pod("p", "n", api.ResourceGPU, 2), `{"c":[{"uuid":"GPU-n-0","milliGPU":1000},{"uuid":"GPU-n-1","milliGPU":1000}]}`),
			[]quota.Piece{{Product: product, Devices: 2, Parts: 2 * quota.Whole}},
		},
		{
			"a GPU that the kubelet reports", whole, kubetest.Observed(kubetest.Pod("p", "n", api.ResourceGPU, 1), api.ResourceGPU, "GPU-n-1"),
			[]quota.Piece{{Product: product, Devices: 1, Parts: quota.Whole}},
		},
		{
			"a pod of which nothing is known holds what it asks for", whole, kubetest.Pod("p", "n", api.ResourceGPU, 1),
			[]quota.Piece{{Product: product, Devices: 1, Parts: quota.Whole}},
		},
		{
			"and no more than the node has", whole, kubetest.Pod("p", "n", api.ResourceGPU, 1000),
			[]quota.Piece{{Product: product, Devices: 2, Parts: 2 * quota.Whole}},
		},
		{
			"a device of another node counts as one of this", whole, kubetest.Committed(kubetest.Pod("p", "n", api.ResourceGPU, 1), `{"c":[{"uuid":"GPU-x","milliGPU":1000}]}`),
			[]quota.Piece{{Product: product, Devices: 1, Parts: quota.Whole}},
		},
		{
			"committed MIG devices are sevenths, whatever milli-GPUs say", cut, kubetest.Committed(kubetest.Pod("p", "n", mig1g, 2), `{"c":[{"uuid":"MIG-n-0-0","milliGPU":142},{"uuid":"MIG-n-0-3","milliGPU":142}]}`),
			[]quota.Piece{{Product: product, Profile: "1g.5gb", Devices: 2, Parts: quota.Whole / 7 * 2}},
		},
		{
			"MIG devices of which nothing is known", cut, kubetest.Pod("p", "n", mig1g, 3),
			[]quota.Piece{{Product: product, Profile: "1g.5gb", Devices: 3, Parts: quota.Whole / 7 * 3}},
		},
		{
			"a MIG device of an A30 is a quarter", a30, kubetest.Pod("p", "n", api.ResourceMIGPrefix+"1g.6gb", 1),
			[]quota.Piece{{Product: "NVIDIA-A30", Profile: "1g.6gb", Devices: 1, Parts: quota.Whole / 4}},
		},
		{
			"nvidia.com/gpu that is a MIG device", single, kubetest.Pod("p", "n", api.ResourceGPU, 2),
			[]quota.Piece{{Product: product, Profile: "1g.5gb", Devices: 2, Parts: quota.Whole / 7 * 2}},
		},
		{
			"a committed share", shared, kubetest.Committed(kubetest.Pod("p", "n", api.ResourceGPU, 1), `{"c":[{"uuid":"GPU-n-0","milliGPU":250}]}`),
			[]quota.Piece{{Product: product, Devices: 1, Parts: quota.Whole / 4}},
		},
		{
			"a share that the kubelet reports", shared, kubetest.Observed(kubetest.Pod("p", "n", api.ResourceGPU, 1), api.ResourceGPU, "GPU-n-0::2"),
			[]quota.Piece{{Product: product, Devices: 1, Parts: quota.Whole / 4}},
		},
		{
			"shares of a node that publishes nothing", foreign, kubetest.Pod("p", "n", api.ResourceGPU, 3),
			[]quota.Piece{{Product: "Tesla-T4", Devices: 3, Parts: quota.Whole / 4 * 3}},
		},
		{
			"a share of a node that publishes nothing, by UUID", foreign, kubetest.Observed(kubetest.Pod("p", "n", api.ResourceGPU, 1), api.ResourceGPU, "GPU-z::0"),
			[]quota.Piece{{Product: "Tesla-T4", Devices: 1, Parts: quota.Whole / 4}},
		},
		{
			"a share by memory", whole, kubetest.Committed(kubetest.Pod("p", "n", api.ResourceGPUMemory, 10), `{"c":[{"uuid":"GPU-n-0","milliGPU":250,"memoryBytes":10737418240}]}`),
			[]quota.Piece{{Product: product, Devices: 1, Parts: quota.Whole / 4}},
		},
		{
			"memory beside a GPU is that of a whole one", whole, kubetest.Pod("p", "n", api.ResourceGPU, 1, api.ResourceGPUMemory, 10),
			[]quota.Piece{{Product: product, Devices: 1, Parts: quota.Whole}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, devices.OfferOf(tt.node).Holds(tt.pod, nil)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// machineOf makes a node with one GPU, whole, cut or shared, as its agent publishes it.
func machineOf(t *testing.T, r *rand.Rand, name string) *v1.Node {
	t.Helper()
	products := gpu.Products()
	p := products[r.IntN(len(products))]
	gpus := gpu.New(name, p, 1)
	s := gpu.Sharing{}
	switch {
	case len(p.Profiles) > 0 && r.IntN(2) == 0:
		s.MIGStrategy = gpu.MIGMixed
		f := p.Profiles[r.IntN(len(p.Profiles))]
		var cut []string
		for range f.Max {
			cut = append(cut, f.Name)
		}
		if err := gpu.Cut(&gpus[0], p, cut); err != nil {
			t.Fatal(err)
		}
	case r.IntN(2) == 0:
		s.Strategy, s.Replicas = gpu.SharingTimeSlicing, map[string]int{api.ResourceGPU: 2 + r.IntN(20)}
	}
	offers := map[string]int{}
	l, err := sharing.NewLedger(gpus, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range l.Devices() {
		offers[d.Resource]++
	}
	pairs := []any{}
	for name, n := range offers {
		pairs = append(pairs, name, n)
	}
	item := devices.InventoryGPU{UUID: gpus[0].UUID, Product: p.Name, MemoryBytes: gpus[0].MemoryBytes, Healthy: true}
	if n := s.Replicas[api.ResourceGPU]; n > 1 {
		item.Shares = n
	}
	if gpus[0].MIGEnabled {
		item.ComputeSlices = p.ComputeSlices
	}
	for _, d := range gpus[0].MIG {
		item.MIG = append(item.MIG, devices.InventoryMIG{UUID: d.UUID, Profile: d.Profile, Start: d.Start, Slices: d.Slices, MemoryBytes: d.MemoryBytes})
	}
	n := kubetest.Inventory(name, []devices.InventoryGPU{item}, pairs...)
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	n.Annotations[api.AnnotationPluginConfig] = string(raw)
	n.Labels = gpu.Labels(gpu.Node{GPUs: gpus}, s)
	return n
}

// randomAsk is a pod that asks for some of what nodes offer.
func randomAsk(r *rand.Rand, id int, node *v1.Node) *v1.Pod {
	p := kubetest.Pod(fmt.Sprint("p", id), "n", "cpu", 1)
	var names []string
	for name := range node.Status.Capacity {
		names = append(names, string(name))
	}
	slices.Sort(names)
	switch r.IntN(4) {
	case 0:
		return kubetest.Pod(p.Name, "n", api.ResourceGPUMemory, 1+r.IntN(20))
	case 1:
		p.Annotations[api.AnnotationKAIFraction] = fmt.Sprint(0.05 + 0.9*r.Float64())
		return p
	}
	return kubetest.Pod(p.Name, "n", names[r.IntN(len(names))], 1+r.IntN(3))
}

// TestPartsOfOneGPUNeverExceedIt lets pods take devices of random nodes of one GPU as the
// scheduler does, until it is full: they never hold more than the GPU, a GPU all of whose
// devices are held is held in full, and each pod holds what the most is said to be.
func TestPartsOfOneGPUNeverExceedIt(t *testing.T) {
	full := 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		node := machineOf(t, r, "n")
		offer := devices.OfferOf(node)
		l, _, err := devices.Ledger(node, nil)
		if err != nil || l == nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		sum, held, bySize := int64(0), 0, false
		for id := range 40 {
			pod := randomAsk(r, id, node)
			parts := request.Parts(pod)
			got, err := l.Allocate(pod.Name, parts)
			if err != nil {
				continue
			}
			text, err := commit.Commitment(parts, got)
			if err != nil {
				t.Fatal(err)
			}
			pieces, most := offer.Holds(kubetest.Committed(pod, text), nil), int64(0)
			for _, a := range request.Asks(pod) {
				each, ok := offer.Most(a)
				if !ok {
					t.Fatalf("seed %d: the node does not offer %+v, which it has given", seed, a)
				}
				most += a.Count * each
				_, _, share := a.ShareOf()
				bySize = bySize || share
			}
			mine := int64(0)
			for _, p := range pieces {
				mine += p.Parts
				held += int(p.Devices)
			}
			if sum += mine; mine <= 0 || mine > most || sum > quota.Whole {
				t.Fatalf("seed %d: pod %s holds %d, at most %d, and all pods %d of %d", seed, pod.Name, mine, most, sum, quota.Whole)
			}
		}
		if n := len(l.Devices()); held == n && !bySize && n <= 16 && node.Labels["nvidia.com/mig.strategy"] == "" {
			full++
			if sum != quota.Whole {
				t.Fatalf("seed %d: all %d devices are held, and %d parts of %d (%s)", seed, n, sum, quota.Whole, offer.Key())
			}
		}
	}
	if full < 50 {
		t.Errorf("only %d nodes were full", full)
	}
}
