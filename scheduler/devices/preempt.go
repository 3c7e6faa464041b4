package devices

import (
	"context"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
)

// PreemptionName is the name of the plugin that makes room, in the scheduler's
// configuration. It must come before DefaultPreemption, to which it leaves pods
// that ask for no GPU.
const PreemptionName = "BerthPreemption"

// Preemption makes room for pods with GPUs that fit nowhere, in one profile of
// the scheduler: it evicts the pods of lower priority that stand in their way,
// chosen by package preemption so that what they free are devices that the pod
// can have, and keeps those for it by a hold until it gets them.
//
// It breaks no disruption budget. It does nothing for a pod whose
// preemptionPolicy is Never, and nothing more for one whose room is being made.
type Preemption struct {
	p *Plugin // of the same profile: sees the nodes, keeps the holds
	*making
}

// making is what the profiles of one scheduler share.
type making struct {
	*evictor
	*rooms
	*vain
	refused *refusedRoom
	sight   sight
	budgets *budgets        // nil: no profile has the plugin
	broken  func(types.UID) // told of pods whose holds went to others
	once    sync.Once
	err     error
}

// The extension points that Preemption is in.
var (
	_ fwk.PostFilterPlugin  = &Preemption{}
	_ fwk.PostBindPlugin    = &Preemption{}
	_ fwk.EnqueueExtensions = &Preemption{}
)

func newMaking(refused *refusedRoom, broken func(types.UID)) *making {
	return &making{evictor: newEvictor(), rooms: newRooms(), vain: newVain(), refused: refused, broken: broken}
}

// preemptionMaker makes the plugin for the profiles of one scheduler, whose desk is d.
func preemptionMaker(d *desk, m *making) Maker {
	return func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		m.once.Do(func() { m.err = m.watch(h) })
		if m.err != nil {
			return nil, m.err
		}
		return &Preemption{p: &Plugin{handle: h, desk: d}, making: m}, nil
	}
}

// watch follows budgets, and pods to their end.
func (m *making) watch(h fwk.Handle) error {
	var err error
	looser := func() {
		h.Activate(klog.Background(), m.refused.which(func(o obstacles) bool { return o.kept }))
	}
	m.again = looser
	if m.budgets, err = watchBudgets(h.SharedInformerFactory(), looser); err != nil {
		return err
	}
	_, err = h.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if pod, ok := obj.(*v1.Pod); ok {
				m.forget(pod.UID)
				m.refused.drop(pod.UID)
				if ready := m.gone(pod.UID); len(ready) > 0 {
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
	x.work.Wait()
	return nil
}

// EventsToRegister implements fwk.EnqueueExtensions: none. Who waits for room is
// woken when it is there, and by the plugins that refused it.
func (x *Preemption) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// nodes lists the nodes of the scheduler's snapshot.
func (p *Plugin) nodes() fwk.NodeInfoLister { return p.handle.SnapshotSharedLister().NodeInfos() }

// PostFilter makes room for a pod with GPUs that fits nowhere, and nominates its
// node. While the room is being made the pod waits; when its hold can be kept no
// more, room is looked for anew.
//
// A refusal is Unresolvable, so that the stock preemption is not asked too: it
// would evict without regard to devices. Pods without GPUs are left to it, and
// members of a gang to the gang.
func (x *Preemption) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if request.Of(pod) == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	if g, err := request.GangOf(pod); g != nil || err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == v1.PreemptNever {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "preemption: not eligible due to preemptionPolicy=Never.")
	}
	if there, m := x.waiting(pod); there > 0 {
		x.p.desk.waits.note(pod.UID, queue.Preemption)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, m.sentence(there))
	}
	x.shut(pod.UID)
	if x.p.desk.release(pod.UID) {
		// The node of its hold has refused it: who knows, there may be room elsewhere.
		x.p.desk.waits.note(pod.UID, queue.Retry)
		x.p.handle.Activate(klog.FromContext(ctx), named([]*v1.Pod{pod}))
		return nominate(""), fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "preemption: the GPUs that were freed for this pod are no longer available to it; it is tried again")
	}
	out, err := x.makeRoom(ctx, &wish{
		pods: []*v1.Pod{pod}, why: holdPreemption,
		may:   func(node string) bool { return statuses.Get(node).Code() == fwk.Unschedulable },
		every: statuses.Get("").Code() == fwk.Unschedulable,
		check: func(node string, gone []*v1.Pod) *fwk.Status { return x.check(ctx, state, pod, node, gone) },
	})
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("make room for pod %s/%s: %w", pod.Namespace, pod.Name, err))
	}
	if out.room != nil {
		x.p.desk.waits.note(pod.UID, queue.Preemption)
		return nominate(out.nodes[0]), fwk.NewStatus(fwk.Success, out.room.sentence(out.left))
	}
	return nominate(""), fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "preemption: "+out.refusal)
}

// PostBind forgets the room of a pod that is there.
func (x *Preemption) PostBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	x.shut(pod.UID)
	x.refused.drop(pod.UID)
}

// holdPreemption is why devices are held for a pod that room is made for.
const holdPreemption = "preemption"

// waiting gives the room that is being made for a pod, and how many are still
// there. There is none if the pod's hold is gone.
func (x *Preemption) waiting(pod *v1.Pod) (int, *room) {
	m := x.roomOf(pod.UID)
	if m == nil || x.p.desk.holdOf(pod.UID) == nil {
		return 0, nil
	}
	return m.there(x.p.nodes()), m
}

// nominate makes a result that sets the pod's nominated node.
func nominate(node string) *fwk.PostFilterResult {
	return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatedNodeName: node, NominatingMode: fwk.ModeOverride}}
}

// check asks the framework's filters whether a pod could go to a node without
// gone. They have what they need of the pod in state, as none has refused it for
// good.
func (x *Preemption) check(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string, gone []*v1.Pod) *fwk.Status {
	info, err := x.p.nodes().Get(node)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("ask the filters of node %s: %w", node, err))
	}
	without, state := info.Snapshot(), state.Clone()
	for _, pi := range info.GetPods() {
		if !slices.ContainsFunc(gone, func(p *v1.Pod) bool { return p.UID == pi.GetPod().UID }) {
			continue
		}
		if err := without.RemovePod(klog.FromContext(ctx), pi.GetPod()); err != nil {
			return fwk.AsStatus(fmt.Errorf("take pods off node %s: %w", node, err))
		}
		if st := x.p.handle.RunPreFilterExtensionRemovePod(ctx, state, pod, pi, without); !st.IsSuccess() {
			return st
		}
	}
	return x.p.handle.RunFilterPluginsWithNominatedPods(ctx, state, pod, without)
}
