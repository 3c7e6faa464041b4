package preempt

import (
	"context"

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
	err := x.p.Plan(ctx, func(pl *nodeindex.Planner) (err error) {
		drift, err = x.nodes.Drift(pl, x.budgets)
		return err
	})
	if err != nil {
		return err.Error()
	}
	return drift
}
