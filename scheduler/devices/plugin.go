// Package devices is Berth's kube-scheduler plugin that chooses the GPUs of a
// pod and commits them in the write that binds it. It is a thin adapter: which
// devices there are, who holds them and which are taken is decided by packages
// kube, sharing and placement. It does not order the queue, knows no gangs and
// evicts nobody; the stock plugins beside it check all else.
package devices

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube"
)

// Name is the plugin's name in the scheduler's configuration.
const Name = "BerthDevices"

// Plugin is the plugin in one profile of the scheduler.
type Plugin struct {
	handle fwk.Handle
	desk   *desk // shared by the profiles of one scheduler
}

// The extension points that Plugin is in.
var (
	_ fwk.PreFilterPlugin   = &Plugin{}
	_ fwk.FilterPlugin      = &Plugin{}
	_ fwk.PreScorePlugin    = &Plugin{}
	_ fwk.ScorePlugin       = &Plugin{}
	_ fwk.ReservePlugin     = &Plugin{}
	_ fwk.BindPlugin        = &Plugin{}
	_ fwk.EnqueueExtensions = &Plugin{}
	_ fwk.SignPlugin        = &Plugin{}
)

// Factory makes the plugin for each profile of one scheduler. Its profiles share
// what they have chosen, as they share the nodes: make one Factory a scheduler.
func Factory() func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	d := newDesk()
	register(d)
	return func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		p := &Plugin{handle: h, desk: d}
		_, err := h.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(_, now any) { d.saw(now.(*v1.Pod)) },
			DeleteFunc: func(obj any) {
				if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					obj = gone.Obj
				}
				if pod, ok := obj.(*v1.Pod); ok {
					d.forget(pod.UID)
				}
			},
		})
		if err != nil {
			return nil, fmt.Errorf("watch pods: %w", err)
		}
		return p, nil
	}
}

// Name implements fwk.Plugin.
func (p *Plugin) Name() string { return Name }

// wanted is what the pod of a scheduling cycle asks for.
type wanted struct {
	parts  []sharing.Part
	shape  string          // equal for pods that ask for the same
	demand cluster.Request // for nodes that share their GPUs as world.common says; set by PreScore
}

const wantedKey fwk.StateKey = Name

// Clone implements fwk.StateData; after PreScore wanted never changes.
func (w *wanted) Clone() fwk.StateData { return w }

func wantedOf(state fwk.CycleState) (*wanted, bool) {
	data, err := state.Read(wantedKey)
	if err != nil {
		return nil, false
	}
	w, ok := data.(*wanted)
	return w, ok
}

// PreFilter reads what a pod asks for. Pods that ask for no GPU are none of this
// plugin's business.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	parts := kube.Parts(pod)
	if len(parts) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	w := &wanted{parts: parts}
	for i := range parts {
		w.shape += fmt.Sprint(parts[i].HandsOn, parts[i].Asks, ";")
	}
	state.Write(wantedKey, w)
	return nil, nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin. There are none: Filter
// looks at the NodeInfo that it is given, whatever was added or removed.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter says whether the node has devices for the pod, one by one. A node that
// publishes no devices is left to its kubelet.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	w, ok := wantedOf(state)
	if !ok {
		return nil
	}
	n := p.desk.node(klog.FromContext(ctx), info)
	switch {
	case n.err != nil:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, n.err.Error())
	case n.ledger == nil:
		return nil
	}
	switch n.fit(w) {
	case fits, tooMany: // of the latter the node says what it has against it: see Reserve
		return nil
	case full:
		return fwk.NewStatus(fwk.Unschedulable, w.reason())
	default:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, w.reason())
	}
}

// reason says what a node lacks, in words that are the same for all nodes, so
// that the scheduler can count them.
func (w *wanted) reason() string {
	a := w.parts[0].Asks[0]
	for i := range w.parts {
		for _, b := range w.parts[i].Asks {
			if b.Resource == sharing.ResourceMemory {
				a = b
			}
		}
	}
	switch {
	case a.Resource == sharing.ResourceMemory:
		return fmt.Sprintf("no GPU with %d GiB free", a.Count)
	case a.LeastGiB > 0:
		return fmt.Sprintf("no free GPU with %d GiB", a.LeastGiB)
	}
	return "too few free devices of " + a.Resource
}

// Reserve chooses the devices. For a pod that asks a node for several shares
// which is configured to give one (failRequestsGreaterThanOne) there are none to
// choose: it is bound without, and the node refuses it as the option says.
func (p *Plugin) Reserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	w, ok := wantedOf(state)
	if !ok {
		return nil
	}
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("reserve devices on node %s: %w", nodeName, err))
	}
	n := p.desk.node(klog.FromContext(ctx), info)
	if n.err != nil {
		return fwk.AsStatus(n.err)
	}
	if n.ledger == nil || n.fit(w) == tooMany {
		return nil // failRequestsGreaterThanOne: the node is to fail it, in the device plugin's words
	}
	c, err := n.choose(pod, w)
	if err != nil {
		return fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("node %s: %v", nodeName, err))
	}
	p.desk.assume(c)
	return nil
}

// Unreserve gives the chosen devices back.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	p.desk.giveUp(pod.UID)
}

// EventsToRegister implements fwk.EnqueueExtensions: what may free a device.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}, QueueingHintFn: podGone},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeAnnotation}},
	}, nil
}

// podGone queues pods again when one that asked for GPUs has ended.
func podGone(_ klog.Logger, _ *v1.Pod, old, _ any) (fwk.QueueingHint, error) {
	if gone, ok := old.(*v1.Pod); ok && kube.Request(gone) == nil {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// SignPod implements fwk.SignPlugin: pods that ask for GPUs are each chosen for
// alone, and to others this plugin makes no difference.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if kube.Request(pod) != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, "devices are chosen pod by pod")
	}
	return nil, nil
}
