package spec

import "go.yaml.in/yaml/v3"

// document is a fleet file as it is written. Pointers tell a field that is
// absent from one that is zero.
type document struct {
	Name   string  `json:"name"`
	System *bool   `json:"system"` // nil is true
	Nodes  []group `json:"nodes"`
}

// group is one entry of nodes: one node, or Count equal ones.
type group struct {
	Name         string            `json:"name"` // with {n} where the number goes; {nnn} pads it to three digits
	Count        *int              `json:"count"`
	Zone         string            `json:"zone"`
	InstanceType string            `json:"instanceType"`
	CapacityType string            `json:"capacityType"`
	Machine      string            `json:"machine"`
	PricePerHour *float64          `json:"pricePerHour"`
	CPU          *int              `json:"cpu"`
	MemoryGiB    *int              `json:"memoryGiB"`
	Pods         *int              `json:"pods"`
	Labels       map[string]string `json:"labels"`
	Taints       []Taint           `json:"taints"`
	Driver       string            `json:"driver"`
	CUDA         string            `json:"cuda"`
	GPUs         *cards            `json:"gpus"`
	Sharing      *yaml.Node        `json:"sharing"` // NVIDIA's document, read by agent/config
}

// cards is what gpus holds.
type cards struct {
	Product string `json:"product"`
	Count   int    `json:"count"`
	NVLink  *bool  `json:"nvlink"` // nil is what the product has
	MIG     *mig   `json:"mig"`
}

// mig is how the GPUs of a node are cut. Profiles is for all of them, PerGPU
// has one entry for each, in index order; an empty one leaves MIG off.
type mig struct {
	Strategy string           `json:"strategy"`
	Profiles map[string]int   `json:"profiles"`
	PerGPU   []map[string]int `json:"perGPU"`
}
