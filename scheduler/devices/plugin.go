// Package devices holds Berth's kube-scheduler plugins. BerthDevices names the
// node of a pod that asks for GPUs, chooses its devices, and commits them in the
// write that binds it; the others plan gangs, make room by preemption, and keep
// back pods whose turn it is not. They are thin adapters: which devices there
// are, who holds them, which are taken, what a gang gets and who must go is
// decided by packages kube and core. The stock plugins beside them check all else.
package devices

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/kube/request"
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
	_ fwk.PostFilterPlugin  = &Plugin{}
	_ fwk.PreScorePlugin    = &Plugin{}
	_ fwk.ScorePlugin       = &Plugin{}
	_ fwk.ReservePlugin     = &Plugin{}
	_ fwk.BindPlugin        = &Plugin{}
	_ fwk.EnqueueExtensions = &Plugin{}
	_ fwk.SignPlugin        = &Plugin{}
)

// Factory makes the plugin for each profile of one scheduler. Its profiles share
// what they have chosen, as they share the nodes: make one Factory a scheduler.
func Factory() Maker {
	d := newDesk()
	register(d)
	return maker(d)
}

// maker makes the plugin for the profiles of one scheduler, whose desk is d.
func maker(d *desk) Maker {
	return func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		p := &Plugin{handle: h, desk: d}
		d.waiting.call = caller(h) // the profiles have one queue
		_, err := h.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(old, now any) { d.seen(old.(*v1.Pod), now.(*v1.Pod)) },
			DeleteFunc: func(obj any) {
				if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					obj = gone.Obj
				}
				if pod, ok := obj.(*v1.Pod); ok {
					d.waits.clear(pod.UID)
					held := d.forget(pod.UID)
					if d.waiting.leave(pod.UID); held {
						d.resolved()
					}
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

// PreFilterExtensions implements fwk.PreFilterPlugin. There are none: Filter
// looks at the NodeInfo that it is given, whatever was added or removed.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter says whether the node has devices for the pod, one by one. A node that
// publishes no devices is left to its kubelet.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	w, ok := wantedOf(state)
	if !ok || !w.devices {
		return nil
	}
	n := p.desk.node(klog.FromContext(ctx), info)
	switch {
	case n.err != nil:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, n.err.Error())
	case n.ledger == nil:
		return n.uncounted(pod, w, info)
	}
	if name := missing(info.Node(), w.resources()); name != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Insufficient "+name)
	}
	switch n.fit(pod, w) {
	case fits, tooMany: // of the latter the node says what it has against it: see Reserve
		return nil
	case full:
		return fwk.NewStatus(fwk.Unschedulable, w.lacks())
	case soon:
		return fwk.NewStatus(fwk.Unschedulable, "devices held for the pod are not free yet")
	default:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, w.lacks())
	}
}

// Reserve chooses the devices: those held for the pod, else those that the
// placement policy likes best, else, for what one request cannot describe, the
// ledger's own pick. For a pod that asks a node for several shares which is
// configured to give one (failRequestsGreaterThanOne) there are none to choose:
// it is bound without, and the node refuses it as the option says.
func (p *Plugin) Reserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	w, ok := wantedOf(state)
	if !ok {
		return nil
	}
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("reserve devices on node %s: %w", nodeName, err))
	}
	log := klog.FromContext(ctx)
	n := p.desk.node(log, info)
	if n.err != nil {
		return fwk.AsStatus(n.err)
	}
	s := &p.desk.score
	s.mu.Lock()
	defer s.mu.Unlock()
	at, named := s.prefer(log, p.desk, info, pod, w)
	if n.ledger == nil || !w.devices || n.fit(pod, w) == tooMany {
		p.desk.reserved(pod.UID)
		if at != nil && !w.devices { // the world sees its CPU at once
			s.world.leave(at, pod.UID)
			s.world.enter(at, pod.UID, pod, nil, nil)
			at.version = -1
		}
		return nil
	}
	c, err := n.choose(pod, w, named)
	if err != nil {
		return fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("node %s: %v", nodeName, err))
	}
	c.warning = request.SeveralShares(pod, info.Node(), c.named)
	p.desk.assume(c)
	if at != nil {
		s.world.leave(at, pod.UID)
		s.world.enter(at, pod.UID, pod, c.devices, nil)
		at.version = -1 // counted anew, also where the pod leaves before its NodeInfo shows it
	}
	return nil
}

// Unreserve gives the chosen devices back.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	p.desk.giveUp(pod.UID)
}

// SignPod implements fwk.SignPlugin: pods for which this plugin names a node are
// each chosen for alone.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if request.Of(pod) != nil || unspread(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "devices are chosen pod by pod")
	}
	return nil, nil
}
