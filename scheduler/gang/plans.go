package gang

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/nodeindex"
)

// Plans plans for whole gangs, in one profile of the scheduler; see Gangs.
type Plans struct {
	p       *nodeindex.Profile // of the same profile: sees the nodes, keeps the holds
	manager *Manager
	room    Room // makes room for gangs that do not fit
}

// The extension points that Plans is in.
var (
	_ fwk.PreFilterPlugin   = &Plans{}
	_ fwk.PostFilterPlugin  = &Plans{}
	_ fwk.EnqueueExtensions = &Plans{}
	_ fwk.SignPlugin        = &Plans{}
)

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
func (g *Plans) Name() string { return PlansName }

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

// roomMade looks at what has happened to a pod or a node, old before and now
// after it: it may have made enough room for the gang that a pod leads. Then the
// leader is woken. It reports whether the pod is to be tried for another reason, as
// it is of no gang. The leader is not queued by the scheduler, which would let it
// wait longer after each refusal.
func (b *Manager) roomMade(uid types.UID, old, now any) bool {
	if !b.knows(uid) {
		return true
	}
	e := gang.Freed{UID: string(uid)}
	gone, was := old.(*v1.Pod)
	switch _, is := now.(*v1.Node); {
	case was && now == nil:
		e.Ended, e.Milli, e.Priority = true, request.FreedMilli(gone), request.Priority(gone)
	case !is:
		e.Other = true
	}
	b.Happened(e)
	return false
}
