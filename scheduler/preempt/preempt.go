// Package preempt makes room for pods with GPUs and for gangs, by evicting pods of
// lower priority that core/preemption chooses.
package preempt

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/evict"
	"berth.dev/berth/scheduler/fit"
	"berth.dev/berth/scheduler/nodeindex"
	schedulerqueue "berth.dev/berth/scheduler/queue"
	"berth.dev/berth/scheduler/quota"
	"berth.dev/berth/scheduler/reserve"
	quotas "berth.dev/berth/scheduler/state"
)

// The extension points that Preemption is in.
var (
	_ fwk.PostFilterPlugin  = &Preemption{}
	_ fwk.PostBindPlugin    = &Preemption{}
	_ fwk.EnqueueExtensions = &Preemption{}
)

// NewPreemption makes the plugin for the profiles of one scheduler, of c.
func NewPreemption(d *nodeindex.Cluster, m *preemptions) nodeindex.Maker {
	return func(_ context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		m.once.Do(func() {
			after, err := reserve.ReadArgs(args)
			if m.reservations.Attach(h, after); err == nil {
				err = m.watch(h)
			}
			m.err = err
		})
		if m.err != nil {
			return nil, m.err
		}
		return &Preemption{p: &nodeindex.Profile{Handle: h, Cluster: d}, preemptions: m}, nil
	}
}

// watch follows budgets, and pods to their end.
func (m *preemptions) watch(h fwk.Handle) error {
	var err error
	looser := func() {
		h.Activate(klog.Background(), m.refused.Which(func(o nodeindex.Obstacles) bool { return o.Kept }))
	}
	m.Again = looser
	m.Stays = func(pods []*v1.Pod) { m.replan(h, klog.Background(), m.Rooms.Stay(pods)) }
	if m.budgets, err = evict.WatchBudgets(h.SharedInformerFactory(), looser); err != nil {
		return err
	}
	_, err = h.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(obj any) {
			gone, unseen := obj.(cache.DeletedFinalStateUnknown)
			if unseen {
				obj = gone.Obj
			}
			if pod, ok := obj.(*v1.Pod); ok {
				if !unseen {
					m.times.Gone(pod, time.Now())
				}
				ready := m.Rooms.Gone(pod.UID)
				m.Forget(pod.UID)
				m.refused.Drop(pod.UID)
				m.reservations.Left(pod)
				m.arrived(h, pod)
				if len(ready) > 0 {
					h.Activate(klog.Background(), ready)
				}
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	return nil
}

// Name implements fwk.Plugin.
func (x *Preemption) Name() string { return PreemptionName }

// Close waits for the evictions that have begun.
func (x *Preemption) Close() error {
	x.Work.Wait()
	return nil
}

// EventsToRegister implements fwk.EnqueueExtensions: none. Who waits for room is
// woken when it is there, and by the plugins that refused it.
func (x *Preemption) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// PostFilter makes room for a pod with GPUs that fits nowhere, and nominates its
// node. While the room is being made the pod waits; when its hold can be kept no
// more, room is looked for anew.
//
// A refusal is Unresolvable, so that the stock preemption is not asked too: it
// would evict without regard to devices. Pods without GPUs are left to it, and
// members that a gang needs to the gang. One beyond the minimum is a pod like any
// other, except that it evicts no other member of the gang; where it must be near the
// others the gang has made room (MakeRoomForGang).
func (x *Preemption) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if !request.AsksForGPUs(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	lacks := quotas.QuotaOf(state)
	if lacks != nil && lacks.Final {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	g, err := request.GangOf(pod)
	if err != nil || g != nil && (g.Within < gang.Cluster || x.least(g.Key) == 0) {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	if there, m := x.waiting(state, pod); there > 0 {
		x.p.Cluster.Waits.Note(pod.UID, m.Waits())
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, m.Sentence(there))
	}
	x.Shut(pod.UID)
	if x.p.Cluster.Release(pod.UID) {
		// The node of its hold has refused it: who knows, there may be room elsewhere.
		x.p.Cluster.Waits.Note(pod.UID, queue.Retry)
		schedulerqueue.Activate(x.p.Handle, klog.FromContext(ctx), pod)
		return nominate(""), fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "preemption: the GPUs that were freed for this pod are no longer available to it; it is tried again")
	}
	others := state.Clone() // without the plugin that counts devices: the search does
	others.SetSkipFilterPlugins(state.GetSkipFilterPlugins().Union(sets.New(fit.Name)))
	w := &preemptor{
		pods: []*v1.Pod{pod}, why: holdPreemption, gang: gangKey(g),
		may:    func(node string) bool { return statuses.Get(node).Code() == fwk.Unschedulable },
		every:  statuses.Get("").Code() == fwk.Unschedulable,
		check:  func(node string, gone []*v1.Pod) *fwk.Status { return x.check(ctx, state, pod, node, gone) },
		allows: func(node string, gone []*v1.Pod) bool { return x.check(ctx, others, pod, node, gone).IsSuccess() },
	}
	w.never, w.asks = request.NeverPreempts(pod), quota.Alone(pod, x.p.Cluster.Waiting.Ticket(pod))
	out, err := x.byAlternatives(w, func() (*outcome, error) { return x.roomFor(ctx, w) })
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("make room for pod %s/%s: %w", pod.Namespace, pod.Name, err))
	}
	if out.room == nil && w.never {
		w.never = false
		return x.refuse(ctx, state, w, neverText, g == nil && lacks == nil)
	}
	if out.room != nil {
		x.reservations.Lapsed(queues.Workload(pod))
		x.p.Cluster.Waits.Note(pod.UID, queue.Preemption)
		return nominate(out.nodes[0]), fwk.NewStatus(fwk.Success, out.room.Sentence(out.left))
	}
	return x.refuse(ctx, state, w, "preemption: "+out.refusal, g == nil && lacks == nil)
}

// PostBind forgets the room of a pod that is there.
func (x *Preemption) PostBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	if request.AsksForGPUs(pod) {
		x.reservations.Bound(pod, node)
		x.arrived(x.p.Handle, pod)
	}
	x.Shut(pod.UID)
	x.refused.Drop(pod.UID)
}

// waiting gives the room that is being made for a pod, and how many are still
// there. There is none if the pod's hold is gone, or if one of those it waits for is not evicted after all. Where the quotas refuse the pod and count some that have left the
// nodes, these are there: the quotas call the pod when they hear of it.
func (x *Preemption) waiting(cycle fwk.CycleState, pod *v1.Pod) (int, *reserve.Room) {
	m := x.Of(pod.UID)
	if !x.held(m) {
		return 0, nil
	}
	there, stays := x.There(m, x.p.Nodes(), x.Going)
	if stays {
		return 0, nil
	}
	if there == 0 && quotas.QuotaRefused(cycle) {
		there = x.p.Cluster.Quota.Counted(m.Ends)
	}
	return there, m
}

// held reports whether something is still held for a pod of a room, which may be nil.
func (x *Preemption) held(m *reserve.Room) bool {
	return m != nil && slices.ContainsFunc(m.Pods, func(pod *v1.Pod) bool { return x.p.Cluster.HoldOf(pod.UID) != nil })
}
