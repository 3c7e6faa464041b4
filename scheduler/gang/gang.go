// Package gang runs core/gang's Machine in kube-scheduler: it feeds it what the
// watch, the queue and the extension points report, and does what it says.
package gang

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/nodeindex"
)

// The names of the plugins that keep gangs whole, in the scheduler's
// configuration. They are two because the scheduler asks a plugin about events
// for every pod that it holds back: GangsName holds back, and asks for none.
const (
	GangsName = "BerthGangs"
	PlansName = "BerthGangPlans"
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

// Plans plans for whole gangs, in one profile of the scheduler; see Gangs.
type Plans struct {
	p       *nodeindex.Profile // of the same profile: sees the nodes, keeps the holds
	manager *Manager
	room    Room // makes room for gangs that do not fit
}

// The extension points that they are in.
var (
	_ fwk.QueueSortPlugin   = &Gangs{}
	_ fwk.PreEnqueuePlugin  = &Gangs{}
	_ fwk.ReservePlugin     = &Gangs{}
	_ fwk.PermitPlugin      = &Gangs{}
	_ fwk.EnqueueExtensions = &Gangs{}
	_ fwk.PreFilterPlugin   = &Plans{}
	_ fwk.PostFilterPlugin  = &Plans{}
	_ fwk.EnqueueExtensions = &Plans{}
	_ fwk.SignPlugin        = &Plans{}
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

// Room makes room for gangs that do not fit.
type Room interface {
	// RoomForGang says what the leader of a gang waits for that room is made for,
	// "" if for nothing. If the room has become the gang's plan, order is as in Manager.Placed.
	RoomForGang(ctx context.Context, manager *Manager, pod *v1.Pod) (waits string, is queue.Wait, order []string)
	// makeRoomForGang makes room for the gang that a pod leads. A nil status is
	// that there is nothing to do.
	MakeRoomForGang(ctx context.Context, cycle fwk.CycleState, manager *Manager, pod *v1.Pod) (*fwk.PostFilterResult, *fwk.Status)
	// GangEnded forgets what is kept for a gang, by its key, of which no pod is left.
	GangEnded(key string)
	// EvictGang evicts the pods of a gang that cannot go on, all of them or none, and
	// returns at once. kept is called with the reason if they must stay.
	EvictGang(ctx context.Context, e *gang.Evict, pods []*v1.Pod, kept func(why string))
}

// NewPlans makes Plans for the profiles of one scheduler.
func NewPlans(d *nodeindex.Cluster, manager *Manager, room func(*nodeindex.Profile) Room) nodeindex.Maker {
	return func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		p := &nodeindex.Profile{Handle: h, Cluster: d}
		made := room(p)
		manager.evictsBy(made)
		return &Plans{p: p, manager: manager, room: made}, nil
	}
}

// Name implements fwk.Plugin.
func (g *Gangs) Name() string { return GangsName }

// Name implements fwk.Plugin.
func (g *Plans) Name() string { return PlansName }

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

// SignPod implements fwk.SignPlugin: members are not placed one like the other.
func (g *Plans) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if ref, err := request.GangOf(pod); ref != nil || err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, "members of a gang are planned together")
	}
	return nil, nil
}

// EventsToRegister implements fwk.EnqueueExtensions: what may make room for a
// gang. Only its leader is asked about them.
func (g *Plans) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	hint := func(_ klog.Logger, pod *v1.Pod, old, now any) (fwk.QueueingHint, error) {
		if g.manager.roomMade(pod.UID, old, now) {
			return fwk.Queue, nil
		}
		return fwk.QueueSkip, nil
	}
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete | fwk.Add | fwk.UpdatePodLabel}, QueueingHintFn: hint},
		{Event: fwk.ClusterEvent{Resource: fwk.PersistentVolumeClaim, ActionType: fwk.Add | fwk.Update}, QueueingHintFn: hint},
		{Event: fwk.ClusterEvent{Resource: fwk.PersistentVolume, ActionType: fwk.Add | fwk.Update}, QueueingHintFn: hint},
		{Event: fwk.ClusterEvent{Resource: fwk.StorageClass, ActionType: fwk.Add | fwk.Update}, QueueingHintFn: hint},
		{
			Event: fwk.ClusterEvent{
				Resource:   fwk.Node,
				ActionType: fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint | fwk.UpdateNodeAnnotation,
			},
			QueueingHintFn: hint,
		},
	}, nil
}
