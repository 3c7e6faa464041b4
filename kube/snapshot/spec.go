package snapshot

import (
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// specOf describes a node by what is allocatable and by its GPUs, without shares. A
// GPU with MIG devices that its product is not known to have takes nothing.
func specOf(n *devices.Node, object *v1.Node) cluster.Spec {
	spec := cluster.Spec{
		Name:     n.Name,
		CPUMilli: max(0, request.MilliAmount(object.Status.Allocatable.Cpu(), request.MostMilli)), MemoryBytes: max(0, request.Amount(object.Status.Allocatable.Memory(), request.MostBytes)),
		SharesDo: request.SharesAccepted(object.Annotations), Pods: int32(min(max(object.Status.Allocatable.Pods().Value(), 0), math.MaxInt32)),
	}
	for _, g := range n.GPUs[:min(len(n.GPUs), 127)] {
		p, known := gpu.Find(g.Product)
		card := gpu.GPU{
			Index: g.Index, UUID: g.UUID, Product: productOf(g.Product), MemoryBytes: g.MemoryBytes, Clique: g.Clique, NUMANode: g.NUMANode,
			Healthy: g.Healthy, MIGEnabled: len(g.MIG) > 0,
		}
		for _, d := range g.MIG {
			f, ok := p.Profile(d.Profile)
			if !known || !ok || !slices.Contains(f.Placements, d.Start) {
				card.Healthy, card.MIGEnabled, card.MIG = false, false, nil
				break
			}
			card.MIG = append(card.MIG, gpu.MIGDevice{UUID: d.UUID, Profile: f.Name, Start: d.Start, Slices: d.Slices, MemoryBytes: d.MemoryBytes})
		}
		spec.GPUs = append(spec.GPUs, card)
	}
	return spec
}

// productOf returns NVML's name of a product in label form, where it is known.
func productOf(label string) string {
	if p, ok := gpu.Find(label); ok {
		return p.Name
	}
	return label
}
