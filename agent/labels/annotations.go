package labels

import (
	"encoding/json"
	"fmt"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/devices"
)

// Inventory lists the GPUs of a snapshot as the annotation api.AnnotationInventory
// has them, in index order. verdict is the judgement of package health; nil takes
// every GPU that is not lost for healthy.
func Inventory(s nvml.Snapshot, how gpu.Sharing, verdict func(uuid string) (healthy bool, xid int)) []devices.InventoryGPU {
	list := make([]devices.InventoryGPU, 0, len(s.GPUs))
	for _, g := range s.GPUs {
		item := devices.InventoryGPU{
			Index: g.Index, UUID: g.UUID, Product: g.Product, MemoryBytes: g.MemoryBytes,
			Healthy: !g.Lost, Xid: g.Xid, Shares: shares(how, g.GPU), Clique: g.Clique,
		}
		if verdict != nil {
			healthy, xid := verdict(g.UUID)
			item.Healthy = healthy && !g.Lost
			if xid != 0 {
				item.Xid = xid
			}
		}
		if g.NUMANode >= 0 {
			item.NUMANode = new(g.NUMANode)
		}
		if g.MIGEnabled {
			item.ComputeSlices = g.ComputeSlices
		}
		for _, m := range g.MIG {
			item.MIG = append(item.MIG, devices.InventoryMIG{UUID: m.UUID, Profile: m.Profile, Start: m.Start, Slices: m.Slices, MemoryBytes: m.MemoryBytes})
		}
		list = append(list, item)
	}
	return list
}

// shares is into how many replicas each device of a GPU is divided: the GPU, or its
// MIG devices where these are offered. 0 is not divided, or MIG devices of unlike
// profiles divided unlike.
func shares(s gpu.Sharing, g gpu.GPU) int {
	if s.Strategy == "" || s.Strategy == gpu.SharingNone {
		return 0
	}
	if !g.MIGEnabled || s.MIGStrategy != gpu.MIGMixed {
		return s.Replicas[api.ResourceGPU]
	}
	found := 0
	for i, m := range g.MIG {
		of := s.Replicas[gpu.MIGResource(m.Profile)]
		if i > 0 && of != found {
			return 0
		}
		found = of
	}
	return found
}

// Held is one container that holds devices without a commitment.
type Held struct {
	PodUID, Container string
	Devices           []sharing.Device
}

// Annotations returns Berth's annotations of a node: inventory, the plugin's
// configuration and, for the containers in observed, api.AnnotationObserved. Equal
// arguments give equal texts. A node whose driver gave no GPUs has none.
func Annotations(inventory []devices.InventoryGPU, how gpu.Sharing, observed []Held) (map[string]string, error) {
	if len(inventory) == 0 {
		return map[string]string{}, nil
	}
	byPod := commit.Observed{}
	for _, h := range observed {
		if byPod[h.PodUID] == nil {
			byPod[h.PodUID] = map[string][]sharing.Named{}
		}
		byPod[h.PodUID][h.Container] = append(byPod[h.PodUID][h.Container], sharing.NamedOf(h.Devices)...)
	}
	note, err := commit.ObservedNote(byPod)
	if err != nil {
		return nil, fmt.Errorf("write annotation %s: %w", api.AnnotationObserved, err)
	}
	out := map[string]string{api.AnnotationObserved: note}
	for name, value := range map[string]any{api.AnnotationInventory: inventory, api.AnnotationPluginConfig: how} {
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("write annotation %s: %w", name, err)
		}
		out[name] = string(raw)
	}
	return out, nil
}
