package queue

import "slices"

// Reach is the nodes that have what a pod asks for, free or held, and that the
// pod may use. It does not change.
type Reach struct{ nodes []string } // sorted, each once

// NewReach makes a Reach of names of nodes.
func NewReach(nodes []string) *Reach {
	nodes = slices.Clone(nodes)
	slices.Sort(nodes)
	return &Reach{slices.Compact(nodes)}
}

// Has reports whether a node is within reach.
func (r *Reach) Has(node string) bool {
	_, found := slices.BinarySearch(r.nodes, node)
	return found
}

// Meets reports whether some node is within reach of both.
func (r *Reach) Meets(other *Reach) bool {
	for i, j := 0, 0; i < len(r.nodes) && j < len(other.nodes); {
		switch a, b := r.nodes[i], other.nodes[j]; {
		case a == b:
			return true
		case a < b:
			i++
		default:
			j++
		}
	}
	return false
}

// Compete reports whether two pods that wait could be given the same devices. Where
// the reach of one is not known (nil) they could. Two that no node could hold yet
// compete for one that is to come.
func Compete(a, b *Reach) bool {
	return a == nil || b == nil || a.Meets(b) || len(a.nodes) == 0 && len(b.nodes) == 0
}

// Equal reports whether a and b are the same nodes, or both unknown.
func (r *Reach) Equal(other *Reach) bool {
	if r == other || r == nil || other == nil {
		return r == other
	}
	return slices.Equal(r.nodes, other.nodes)
}
