package view

import (
	"slices"
	"strings"

	"berth.dev/berth/kube/devices"
)

// Pool is the nodes that have one value of a label.
type Pool struct {
	Value string // "" is also of nodes without the label
	View         // of its nodes; Waiting is empty
}

// By divides nodes with GPUs by the values of a label, in the order of these. It takes counts
// as they are: SetBusy of each pool says how busy that is.
func By(nodes []devices.Node, label string) []Pool {
	var out []Pool
	for i := range nodes {
		value := nodes[i].Labels[label]
		at, there := slices.BinarySearchFunc(out, value, func(p Pool, value string) int { return strings.Compare(p.Value, value) })
		if !there {
			out = slices.Insert(out, at, Pool{Value: value})
		}
		out[at].Nodes = append(out[at].Nodes, nodes[i])
	}
	for i := range out {
		out[i].sum()
	}
	return out
}
