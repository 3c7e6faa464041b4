package devices

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
)

// GPUs reads the GPUs of a node and how they are offered, from the annotations
// berth.dev/inventory and berth.dev/plugin-config. It gives no GPUs and no error
// for a node without the first: then its devices are not published.
func GPUs(node *v1.Node) ([]gpu.GPU, gpu.Sharing, error) {
	list, err := Inventory(node)
	if err != nil || len(list) == 0 {
		return nil, gpu.Sharing{}, err
	}
	s, err := Sharing(node)
	if err != nil {
		return nil, gpu.Sharing{}, err
	}
	gpus := make([]gpu.GPU, 0, len(list))
	for _, item := range list {
		g := gpu.GPU{
			Index: item.Index, UUID: item.UUID, Product: item.Product, MemoryBytes: item.MemoryBytes, Healthy: item.Healthy, Xid: item.Xid,
			MIGEnabled: item.ComputeSlices > 0, Clique: item.Clique, NUMANode: -1,
		}
		if item.NUMANode != nil {
			g.NUMANode = *item.NUMANode
		}
		for _, m := range item.MIG {
			g.MIG = append(g.MIG, gpu.MIGDevice{UUID: m.UUID, Profile: m.Profile, Start: m.Start, Slices: m.Slices, MemoryBytes: m.MemoryBytes})
		}
		gpus = append(gpus, g)
	}
	slices.SortStableFunc(gpus, func(a, b gpu.GPU) int { return cmp.Compare(a.Index, b.Index) })
	return gpus, s, nil
}

// Sharing reads how a node divides its GPUs, from the annotation
// berth.dev/plugin-config; zero where it has none.
func Sharing(node *v1.Node) (gpu.Sharing, error) {
	var s gpu.Sharing
	note := node.Annotations[api.AnnotationPluginConfig]
	if note == "" {
		return s, nil
	}
	if err := json.Unmarshal([]byte(note), &s); err != nil {
		return gpu.Sharing{}, fmt.Errorf("node %s: read annotation %s: %w", node.Name, api.AnnotationPluginConfig, err)
	}
	if err := sharing.CheckReplicas(s); err != nil {
		return gpu.Sharing{}, fmt.Errorf("node %s: annotation %s: %w", node.Name, api.AnnotationPluginConfig, err)
	}
	return s, nil
}

// SameAnnotations reports whether two versions of a node publish the same devices,
// divided in the same way.
func SameAnnotations(a, b *v1.Node) bool {
	return a == b || a.Annotations[api.AnnotationInventory] == b.Annotations[api.AnnotationInventory] &&
		a.Annotations[api.AnnotationPluginConfig] == b.Annotations[api.AnnotationPluginConfig]
}

// GPUNode reports whether a node offers GPUs, in any form.
func GPUNode(node *v1.Node) bool {
	for name, q := range node.Status.Capacity {
		if request.IsGPU(string(name)) && !q.IsZero() {
			return true
		}
	}
	return false
}
