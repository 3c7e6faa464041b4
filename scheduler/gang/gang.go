// Package gang runs core/gang's Machine in kube-scheduler: it feeds it what the
// watch, the queue and the extension points report, and does what it says.
package gang

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/scheduler/nodeindex"
)

// Gangs keeps gangs whole, in one profile of the scheduler. Members wait outside
// of the queue until enough of them exist; then one, the leader, is let in. It
// plans for all (Plans) and takes a hold for each, and the others go straight
// to their nodes. Nobody is bound before so many have passed every filter that
// the gang runs.
//
// Of a gang that does not fit only the leader is tried again, when enough has
// been given back; the others cost nothing. All that is known of a gang comes
// from pods and the objects that they name, so that a new scheduler knows the
// same: where some of a gang are bound, the rest go first.
type Gangs struct{ manager *Manager }

// The extension points that Gangs is in.
var (
	_ fwk.QueueSortPlugin   = &Gangs{}
	_ fwk.PreEnqueuePlugin  = &Gangs{}
	_ fwk.ReservePlugin     = &Gangs{}
	_ fwk.PermitPlugin      = &Gangs{}
	_ fwk.EnqueueExtensions = &Gangs{}
)

// NewGangs makes Gangs for the profiles of one scheduler.
func NewGangs(c *nodeindex.Cluster, manager *Manager) nodeindex.Maker {
	return func(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		if err := manager.join(ctx, h, c); err != nil {
			return nil, fmt.Errorf("watch gangs: %w", err)
		}
		return &Gangs{manager: manager}, nil
	}
}

// Name implements fwk.Plugin.
func (g *Gangs) Name() string { return GangsName }

// EventsToRegister implements fwk.EnqueueExtensions: there are none. Whoever
// waits for a gang is woken by the gang.
func (g *Gangs) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// PreEnqueue implements fwk.PreEnqueuePlugin: it lets members into the queue when
// there is something to do for them.
func (g *Gangs) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if text := g.manager.admit(pod); text != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, text)
	}
	return nil
}

// Reserve implements fwk.ReservePlugin; there is nothing to do.
func (g *Gangs) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

// Unreserve implements fwk.ReservePlugin: a member that does not go takes the
// gang with it, if that does not run yet.
func (g *Gangs) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	g.manager.Happened(gang.Unreserved{UID: string(pod.UID)})
}

// permitTimeout is how long members wait for one another at most. They are next
// to each other in the queue, so that it is long enough by far.
const permitTimeout = time.Minute

// Permit implements fwk.PermitPlugin: a member waits until so many have a place
// that the gang runs; the last of them lets all go.
func (g *Gangs) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	switch answer := g.manager.Happened(gang.Arrived{UID: string(pod.UID)}); {
	case answer.Reason != "":
		g.manager.state.Waits.Note(pod.UID, queue.Gang)
		return fwk.NewStatus(fwk.Unschedulable, answer.Reason), 0
	case answer.Wait:
		return fwk.NewStatus(fwk.Wait, "waiting for the rest of the gang"), permitTimeout
	}
	return nil, 0
}

// Less implements fwk.QueueSortPlugin, in the order of package queue. What counts
// is when a pod was created, not when it came into this queue, which is another
// time after each try and each start of the scheduler.
func (g *Gangs) Less(a, b fwk.QueuedPodInfo) bool {
	return queue.Compare(g.manager.ticketOf(a.GetPodInfo().GetPod()), g.manager.ticketOf(b.GetPodInfo().GetPod())) < 0
}
