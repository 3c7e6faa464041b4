package devices

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/mig"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
)

// InventoryGPU is one GPU in the annotation berth.dev/inventory of a Node, as
// the node agent or the simulated fleet sees it.
type InventoryGPU struct {
	Index         int            `json:"index"` // NVML index, from 0
	UUID          string         `json:"uuid"`
	Product       string         `json:"product"`     // as NVML names it, blanks kept
	MemoryBytes   int64          `json:"memoryBytes"` // total
	Healthy       bool           `json:"healthy"`
	Xid           int            `json:"xid,omitempty"`           // of an unhealthy GPU the Xid that made it so, of a healthy one the last; 0 is none
	Shares        int            `json:"shares,omitempty"`        // replicas per device; 0 is not shared
	ComputeSlices int            `json:"computeSlices,omitempty"` // of the whole GPU; 0 is no MIG
	Clique        int            `json:"clique,omitempty"`        // equal and not 0 share an NVLink fabric
	NUMANode      *int           `json:"numaNode,omitempty"`      // nil is unknown
	MIG           []InventoryMIG `json:"mig,omitempty"`           // in placement order
}

// InventoryMIG is one MIG device of an InventoryGPU.
type InventoryMIG struct {
	UUID        string `json:"uuid"`
	Profile     string `json:"profile"` // such as "1g.5gb"
	Start       int    `json:"start"`   // first memory slice
	Slices      int    `json:"slices"`  // compute slices, of ComputeSlices
	MemoryBytes int64  `json:"memoryBytes"`
}

// Inventory reads the annotation berth.dev/inventory of a node, in its own
// order. It gives nil and no error for a node without one, as on a cluster
// that Berth is not installed in, and an error for one that is not JSON of
// []InventoryGPU or has a number out of range; such a node is best read from its
// labels and capacity.
func Inventory(node *v1.Node) ([]InventoryGPU, error) {
	raw, ok := node.Annotations[api.AnnotationInventory]
	if !ok {
		return nil, nil
	}
	var gpus []InventoryGPU
	if err := json.Unmarshal([]byte(raw), &gpus); err != nil {
		return nil, fmt.Errorf("node %s: read annotation %s: %w; remove it, and the node agent writes it again",
			node.Name, api.AnnotationInventory, err)
	}
	if err := checkInventory(gpus); err != nil {
		return nil, fmt.Errorf("node %s: annotation %s: %w; remove it, and the node agent writes it again",
			node.Name, api.AnnotationInventory, err)
	}
	return gpus, nil
}

// Bounds of what a node publishes: products of them stay within an int64.
const (
	mostNodeGPUs = 256
	mostNumber   = 1 << 20 // of a code or place that only has to be small
)

// checkInventory reports the first number that no node has. A client that may write to a
// node may write its inventory, and all processes that read it take it for true.
func checkInventory(gpus []InventoryGPU) error {
	if len(gpus) > mostNodeGPUs {
		return fmt.Errorf("%d GPUs; a node has at most %d", len(gpus), mostNodeGPUs)
	}
	for i := range gpus {
		g := &gpus[i]
		numa := 0
		if g.NUMANode != nil {
			numa = *g.NUMANode + 1 // -1 is unknown
		}
		for _, f := range []struct {
			name     string
			is, most int64
		}{
			{"index", int64(g.Index), mostNumber},
			{"memoryBytes", g.MemoryBytes, request.MostBytes},
			{"xid", int64(g.Xid), mostNumber},
			{"shares", int64(g.Shares), sharing.MostReplicas},
			{"computeSlices", int64(g.ComputeSlices), mig.MostDevices},
			{"clique", int64(g.Clique), mostNumber},
			{"numaNode", int64(numa), mostNumber},
			{"length of mig", int64(len(g.MIG)), mig.MostDevices},
		} {
			if f.is < 0 || f.is > f.most {
				return fmt.Errorf("GPU %d of the list: %s %d is not 0 to %d", i, f.name, f.is, f.most)
			}
		}
		for j, m := range g.MIG {
			if m.Start < 0 || m.Start > mig.MostDevices || m.Slices < 0 || m.Slices > mig.MostDevices || m.MemoryBytes < 0 || m.MemoryBytes > request.MostBytes {
				return fmt.Errorf("GPU %d of the list: MIG device %d has start %d, %d slices and %d bytes; no GPU is cut so", i, j, m.Start, m.Slices, m.MemoryBytes)
			}
		}
	}
	return nil
}
