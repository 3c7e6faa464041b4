package preempt

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/scheduler/evict"
)

// GangEnded implements gang.Room.
func (x *Preemption) GangEnded(key string) { x.reservations.GangEnded(key) }

// EvictGang implements gang.Room.
func (x *Preemption) EvictGang(ctx context.Context, e *gang.Evict, pods []*v1.Pod, kept func(why string)) {
	if x.budgets == nil {
		kept("the scheduler's configuration has no plugin that evicts pods")
		return
	}
	x.Together(ctx, x.p.Handle, x.budgets, evict.Cause{Gang: e.Name, Why: e.Why}, pods, kept)
}
