package fit

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/state"
)

// Reserve chooses the devices: those held for the pod, else those that the
// placement policy likes best, else, for what one request cannot describe, the
// ledger's own pick. For a pod that asks a node for several shares which is
// configured to give one (failRequestsGreaterThanOne) there are none to choose:
// it is bound without, and the node refuses it as the option says.
func (p *Plugin) Reserve(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	w, ok := state.RequestOf(cycle)
	if !ok {
		return nil
	}
	info, err := p.Handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("reserve devices on node %s: %w", nodeName, err))
	}
	log := klog.FromContext(ctx)
	n := p.Cluster.Node(log, info)
	if n.Err != nil {
		return fwk.AsStatus(n.Err)
	}
	s := &p.Cluster.Index
	s.Mu.Lock()
	defer s.Mu.Unlock()
	at, named := s.Prefer(log, p.Cluster.State, info, pod, w)
	if n.Ledger == nil || !w.Devices || n.Fit(pod, w) == state.TooMany {
		p.Cluster.Reserved(pod.UID)
		if at != nil && !w.Devices { // the view sees its CPU at once
			s.View.Leave(&at.Node, pod.UID)
			s.View.Enter(&at.Node, pod.UID, pod, nil, nil)
			at.Version = -1
		}
		return nil
	}
	c, err := n.Choose(pod, w, named)
	if err != nil {
		return fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("node %s: %v", nodeName, err))
	}
	c.Warning = request.SeveralShares(pod, info.Node(), c.Named)
	p.Cluster.Assume(c)
	if at != nil {
		s.View.Leave(&at.Node, pod.UID)
		s.View.Enter(&at.Node, pod.UID, pod, c.Devices, nil)
		at.Version = -1 // counted again, also where the pod leaves before its NodeInfo shows it
	}
	return nil
}

// Unreserve gives the chosen devices back.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	p.Cluster.GiveUp(pod.UID)
	p.Cluster.Still(pod)
}
