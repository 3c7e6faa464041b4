package preempt

import (
	"context"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/scheduler/nodeindex"
)

// Waits reports whether a pod stands in a line. Tests ask it.
func (x *Preemption) Waits(uid types.UID) bool { return x.p.Cluster.Waiting.Knows(uid) }

// Claims lists the claims that have a reservation. Tests ask it.
func (x *Preemption) Claims() []string { return x.reservations.Claims() }

// Drift returns how what is kept of the nodes differs from what is read from the
// start; "" is not at all. Tests ask it.
func (x *Preemption) Drift(ctx context.Context) (drift string) {
	err := x.p.Plan(ctx, func(pl *nodeindex.Planner) error {
		now := time.Now()
		kept, err := x.see(pl, &preemptor{}, now)
		if err != nil {
			return err
		}
		was := x.preemptions.nodeCache
		x.preemptions.nodeCache = nodeCache{}
		fresh, err := x.see(pl, &preemptor{}, now)
		x.preemptions.nodeCache = was
		switch {
		case err != nil:
			return err
		case !reflect.DeepEqual(kept.c.Holders, fresh.c.Holders):
			drift = "who holds what"
		case !reflect.DeepEqual(kept.pods, fresh.pods):
			drift = "whose it is"
		case !kept.c.Snapshot.Equal(fresh.c.Snapshot):
			drift = "what is free"
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return drift
}
