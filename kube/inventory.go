package kube

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
