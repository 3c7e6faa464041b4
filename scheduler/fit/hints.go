package fit

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/kube/request"
)

// EventsToRegister implements fwk.EnqueueExtensions: what may free a device, let
// a pod use another node, or change what it asks for.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	own := fwk.UpdatePodToleration | fwk.UpdatePodScaleDown | fwk.UpdatePodLabel
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}, QueueingHintFn: p.podGone},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: own}, QueueingHintFn: p.podChanged},
		{
			Event: fwk.ClusterEvent{
				Resource:   fwk.Node,
				ActionType: fwk.Add | fwk.Delete | fwk.UpdateNodeAllocatable | fwk.UpdateNodeAnnotation | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint,
			},
			QueueingHintFn: p.nodeChanged,
		},
	}, nil
}

// podGone is the hint for a pod that has left its node, or the node that it was
// nominated for, where room was made for it. One without GPUs counts for those who
// lack CPU, memory or room for pods, or could make room but for pods that stay. Pods that are not the first of their line
// are queued too, once: Waiting then keeps them back, and no event asks for them again.
func (p *Plugin) podGone(_ klog.Logger, pod *v1.Pod, old, _ any) (fwk.QueueingHint, error) {
	waits, head, sizes := p.Cluster.Waiting.Place(pod.UID)
	gone, ok := old.(*v1.Pod)
	switch {
	case waits && !head || !ok:
		return fwk.Queue, nil
	case gone.Spec.NodeName == "" && gone.Status.NominatedNodeName == "",
		!request.AsksForGPUs(gone) && !(waits && sizes) && !p.Cluster.Refused.Against(pod.UID).Others:
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// podChanged is the hint for a pod that asks for less, or whose own metadata or
// tolerations have changed.
func (p *Plugin) podChanged(_ klog.Logger, pod *v1.Pod, _, now any) (fwk.QueueingHint, error) {
	changed, ok := now.(*v1.Pod)
	if ok && changed.UID != pod.UID && changed.Spec.NodeName == "" {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// nodeChanged is the hint for a node that has come or changed, or is gone with the
// room that was made for the pod there.
func (p *Plugin) nodeChanged(_ klog.Logger, pod *v1.Pod, old, now any) (fwk.QueueingHint, error) {
	gone, ok := old.(*v1.Node)
	if now != nil || !ok {
		return fwk.Queue, nil
	}
	if h := p.Cluster.HoldOf(pod.UID); h == nil || h.Node != gone.Name {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}
