package devices

import (
	"context"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Waits says whether a pod stands in a line.
func (x *Preemption) Waits(uid types.UID) bool { return x.p.desk.waiting.knows(uid) }

// Drift says how what is kept of the nodes differs from what is read anew; "" is
// not at all.
func (x *Preemption) Drift(ctx context.Context) (drift string) {
	err := x.p.plan(ctx, func(pl *planner) error {
		now := time.Now()
		kept, err := x.see(pl, nil, now)
		if err != nil {
			return err
		}
		was := x.making.sight
		x.making.sight = sight{}
		fresh, err := x.see(pl, nil, now)
		x.making.sight = was
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
