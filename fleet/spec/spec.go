// Package spec reads fleet files: which simulated nodes there are, and what
// each one carries. It also turns such a node into the Kubernetes Node object
// that the fleet registers. It starts nothing and talks to no API server.
package spec

import "berth.dev/berth/core/gpu"

// Fleet is a set of simulated nodes.
type Fleet struct {
	Name   string
	System bool   // also create the system pods a GPU cluster has: device plugin, exporter, operator
	Nodes  []Node // in file order, which is the order of their creation
	// Warnings are what the sharing documents say that NVIDIA's device plugin
	// ignores. They go to the caller that loaded the file.
	Warnings []string
}

// Node is one simulated node.
type Node struct {
	Name         string
	Zone         string // such as "us-east-1a"; the region is the zone without its last letter
	InstanceType string
	CapacityType CapacityType
	Machine      string // DMI product name, as GPU Feature Discovery reports it; "" is unknown
	CPU          int    // cores
	MemoryGiB    int
	Pods         int               // most pods the node takes
	PricePerHour string            // dollars, decimal, such as "21.96"; "" is unknown
	Labels       map[string]string // the node's own, over those that Kubernetes derives
	Taints       []Taint
	Driver       string    // such as "570.124.06"; "" on a node without GPUs
	CUDA         string    // the driver's CUDA level, such as "12.8"
	GPUs         []gpu.GPU // in index order
	Sharing      gpu.Sharing
	Before       *gpu.Sharing // what applies again without the ConfigMap that Sharing is from; nil is that it is from none
}

// CapacityType says how a node is bought, in Karpenter's words.
type CapacityType string

// The capacity types of Karpenter's label karpenter.sh/capacity-type.
const (
	OnDemand CapacityType = "on-demand"
	Spot     CapacityType = "spot"
)

// Taint keeps pods without a matching toleration off a node, in the words of
// the Kubernetes API.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Effect string `json:"effect"` // NoSchedule, PreferNoSchedule or NoExecute
}

// GPU returns what core/gpu wants to know of the node's GPUs and driver.
func (n Node) GPU() gpu.Node {
	return gpu.Node{GPUs: n.GPUs, DriverVersion: n.Driver, CUDAVersion: n.CUDA, Machine: n.Machine}
}
