package candidates

import (
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/preemption"
	"berth.dev/berth/scheduler/filters"
)

// asker answers a search with the framework's filters: it implements preemption.Filters.
type asker struct {
	*filters.Filters
	s *List
}

// Filters returns checks as a search for victims among candidates asks them.
func (s *List) Filters(checks *filters.Filters) preemption.Filters { return asker{checks, s} }

// leave has holders leave.
func (a asker) leave(gone []preemption.ID) {
	pods := make([]*v1.Pod, len(gone))
	for i, id := range gone {
		pods[i] = a.s.Pod(id)
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
	_, bad := a.InTurn(placed)
	return bad < 0
}
