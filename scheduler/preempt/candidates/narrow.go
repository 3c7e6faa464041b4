package candidates

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/preemption"
	"berth.dev/berth/scheduler/nodeindex"
)

// Narrow has a search pass over nodes that the classes of its members exclude.
func (s *List) Narrow(pl *nodeindex.Planner, asked *preemption.Preemptor) {
	class := asked.Members[0].Class
	if slices.ContainsFunc(asked.Members, func(r cluster.Request) bool { return r.Class != class }) {
		s.classify(pl, asked.Members)
		return
	}
	may, verdicts := asked.Node, pl.Placer().Snapshot()
	asked.Node = func(i int) bool { return verdicts.Verdict(class, i).Reason == 0 && may(i) }
	for k := range asked.Members {
		asked.Members[k].Class = 0
	}
}

// classify lets requests of several classes go to the nodes that each allows.
func (s *List) classify(pl *nodeindex.Planner, members []cluster.Request) {
	s.Cluster.Snapshot = s.Cluster.Snapshot.Clone()
	done := map[uint32]bool{0: true}
	for k := range members {
		class := members[k].Class
		if done[class] {
			continue
		}
		done[class] = true
		verdicts := make([]cluster.Verdict, s.Cluster.Snapshot.Len())
		for i := range verdicts {
			verdicts[i] = pl.Placer().Snapshot().Verdict(class, i)
		}
		s.Cluster.Snapshot.SetClass(class, verdicts)
	}
}

// Going returns the victims of a plan on a node with the pods whose ends it waits for, and
// the others that are leaving the node.
func (s *List) Going(plan *preemption.Plan, node int) (going, leaving []*v1.Pod) {
	for k := range s.Cluster.Holders[node] {
		id, h := preemption.ID{Node: node, Holder: k}, &s.Cluster.Holders[node][k]
		switch {
		case h.Promise:
		case slices.Contains(plan.Victims, id), slices.Contains(plan.Awaited, id):
			going = append(going, s.Pod(id))
		case h.Leaving:
			leaving = append(leaving, s.Pod(id))
		}
	}
	return going, leaving
}
