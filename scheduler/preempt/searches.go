package preempt

import (
	"berth.dev/berth/core/preemption"
	"berth.dev/berth/scheduler/nodeindex"
)

// key is what w's search is for.
func (w *preemptor) key(asked *preemption.Preemptor, queue string) nodeindex.SearchKey {
	k := nodeindex.SearchKey{Request: asked.Members[0], Priority: asked.Priority, Pods: len(w.pods), Min: w.minCount, Gang: w.gang, Open: len(w.open.Pods), Queue: queue}
	if len(w.pods) > 1 {
		k.Pod = w.pods[0].UID
	}
	return k
}

// state is the state of what searches look at.
func (m *preemptions) state(pl *nodeindex.Planner) nodeindex.SearchState {
	s, latest := pl.Placer().Snapshot(), int64(0)
	for _, at := range pl.W.Nodes {
		latest = max(latest, at.Generation)
	}
	return nodeindex.SearchState{Snapshot: s, Now: s.Now(), Nodes: latest, Budgets: m.budgets.Any.Load(), Evictions: m.Changes(), Quota: pl.P.Cluster.Quota.Version()}
}
