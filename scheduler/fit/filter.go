package fit

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/state"
)

// Filter says whether the node has devices for the pod, one by one. A node that
// publishes no devices is left to its kubelet.
func (p *Plugin) Filter(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	w, ok := state.RequestOf(cycle)
	if !ok || !w.Devices {
		return nil
	}
	n := p.Cluster.Node(klog.FromContext(ctx), info)
	switch {
	case n.Err != nil:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, n.Err.Error())
	case w.Barred != 0 && state.Bars(devices.OfferOf(info.Node()), request.Asks(pod), w.Barred):
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, state.SharingBarred)
	case n.Ledger == nil:
		return n.Uncounted(pod, w, info)
	}
	if name := nodeindex.Missing(info.Node(), w.Resources()); name != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Insufficient "+name)
	}
	switch n.Fit(pod, w) {
	case state.Fits, state.TooMany: // of the latter the node says what it has against it: see Reserve
		return nil
	case state.Full:
		return fwk.NewStatus(fwk.Unschedulable, w.Lacks())
	case state.Soon:
		return fwk.NewStatus(fwk.Unschedulable, "devices held for the pod are not free yet")
	default:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, w.Lacks())
	}
}
