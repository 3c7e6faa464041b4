package preempt

import (
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/preemption"
	"berth.dev/berth/scheduler/filters"
)

// asker answers a search with the framework's filters: it implements preemption.Filters.
type asker struct {
	*filters.Filters
	s *candidates
}

// leave has holders leave.
func (a asker) leave(gone []preemption.ID) {
	pods := make([]*v1.Pod, len(gone))
	for i, id := range gone {
		pods[i] = a.s.pod(id)
	}
	a.Leave(pods)
}

// Begin implements preemption.Filters.
func (a asker) Begin() {
	a.KeepFirst(0)
	a.Leave(nil)
}

// Allows implements preemption.Filters.
func (a asker) Allows(member, node int, gone []preemption.ID) bool {
	a.leave(gone)
	return a.Refuses(member, node) == ""
}

// Place implements preemption.Filters.
func (a asker) Place(member, node int, gone []preemption.ID) {
	a.leave(gone)
	a.Filters.Place(member, node)
}

// Stand implements preemption.Filters.
func (a asker) Stand(placed []cluster.Placement, gone []preemption.ID) bool {
	a.KeepFirst(0)
	a.leave(gone)
	_, bad := inTurn(a.Filters, placed)
	return bad < 0
}

// inTurn places members where they are planned, and returns the order in which the filters
// agree to them. One that is refused is tried again after the others; bad is the
// first that is refused in any order, or -1.
func inTurn(checks *filters.Filters, placed []cluster.Placement) (order []int, bad int) {
	var left []int
	for k := range placed {
		if placed[k].Node >= 0 {
			left = append(left, k)
		}
	}
	for len(left) > 0 {
		var misses []int
		for _, k := range left {
			if checks.Refuses(k, placed[k].Node) != "" {
				misses = append(misses, k)
				continue
			}
			checks.Place(k, placed[k].Node)
			order = append(order, k)
		}
		if len(misses) == len(left) {
			return nil, left[0]
		}
		left = misses
	}
	return order, -1
}
