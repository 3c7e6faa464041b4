package kube

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
)

// InventoryGPU is one GPU in the annotation berth.dev/inventory of a Node, as
// the node agent or the simulated fleet sees it.
type InventoryGPU struct {
	Index         int            `json:"index"` // NVML index, from 0
	UUID          string         `json:"uuid"`
	Product       string         `json:"product"`     // as NVML names it, blanks kept
	MemoryBytes   int64          `json:"memoryBytes"` // total
	Healthy       bool           `json:"healthy"`
	Xid           int            `json:"xid,omitempty"`           // last Xid; 0 is none
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
// []InventoryGPU; such a node is best read from its labels and capacity.
func Inventory(node *v1.Node) ([]InventoryGPU, error) {
	raw, ok := node.Annotations[api.AnnotationInventory]
	if !ok {
		return nil, nil
	}
	var gpus []InventoryGPU
	if err := json.Unmarshal([]byte(raw), &gpus); err != nil {
		return nil, fmt.Errorf("node %s: read annotation %s: %w; the node agent writes it anew when it is removed",
			node.Name, api.AnnotationInventory, err)
	}
	return gpus, nil
}
