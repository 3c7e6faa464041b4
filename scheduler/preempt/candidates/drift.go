package candidates

import (
	"reflect"
	"time"

	"berth.dev/berth/scheduler/evict"
	"berth.dev/berth/scheduler/nodeindex"
)

// Drift returns how what is kept of the nodes differs from what is read from the
// start; "" is not at all. Tests ask it.
func (v *Cache) Drift(pl *nodeindex.Planner, budgets *evict.Budgets) (drift string, err error) {
	now := time.Now()
	kept, err := v.List(pl, budgets, &Preemptor{}, now)
	if err != nil {
		return "", err
	}
	was := v.nodes
	v.nodes = nodes{}
	fresh, err := v.List(pl, budgets, &Preemptor{}, now)
	v.nodes = was
	switch {
	case err != nil:
		return "", err
	case !reflect.DeepEqual(kept.Cluster.Holders, fresh.Cluster.Holders):
		drift = "who holds what"
	case !reflect.DeepEqual(kept.Pods, fresh.Pods):
		drift = "whose it is"
	case !kept.Cluster.Snapshot.Equal(fresh.Cluster.Snapshot):
		drift = "what is free"
	}
	return drift, nil
}
