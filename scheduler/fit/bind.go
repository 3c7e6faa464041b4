package fit

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/scheduler/state"
)

// Bind writes the node and the chosen devices of a pod in one request: the API
// server merges the Binding's annotations into the pod in the update that sets
// its node. A pod for which nothing was chosen is left to the next plugin.
func (p *Plugin) Bind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	c := p.Cluster.Chosen(pod.UID)
	if c == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	if c.Node != nodeName {
		return fwk.AsStatus(fmt.Errorf("bind pod %s/%s to node %s: its devices were chosen on node %s", pod.Namespace, pod.Name, nodeName, c.Node))
	}
	if err := p.Cluster.Gate.Enter(ctx); err != nil {
		return fwk.AsStatus(fmt.Errorf("bind pod %s/%s to node %s: %w", pod.Namespace, pod.Name, nodeName, err))
	}
	defer p.Cluster.Gate.Leave()
	if err := p.Cluster.Clear(ctx, pod); err != nil {
		return fwk.AsStatus(err)
	}
	client := p.Handle.ClientSet().CoreV1().Pods(pod.Namespace)
	err := client.Bind(ctx, state.Binding(pod, nodeName, c), metav1.CreateOptions{})
	if err == nil {
		p.settled(pod)
		p.warn(ctx, pod, c.Warning)
		return nil
	}
	if state.Refused(err) {
		return p.unbound(pod, nodeName, err)
	}
	// It may have arrived: what the API server has decides.
	now, getErr := client.Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case getErr == nil && now.UID == pod.UID && now.Spec.NodeName == nodeName && now.Annotations[api.AnnotationDevices] == c.Annotation:
		p.settled(pod)
		return nil
	case getErr == nil && (now.UID != pod.UID || now.Spec.NodeName != "") || apierrors.IsNotFound(getErr):
	default:
		p.Cluster.Doubts(pod.UID) // it may still be on its way
	}
	return p.unbound(pod, nodeName, fmt.Errorf("bind pod %s/%s to node %s: %w", pod.Namespace, pod.Name, nodeName, err))
}

// settled notes that a pod is bound. Those who wait because this was in doubt are called: now it can be evicted for them.
func (p *Plugin) settled(pod *v1.Pod) {
	if p.Cluster.Settled(pod.UID) {
		p.Cluster.Resolved()
	}
}

// warn records text, if any, as an event of a pod.
func (p *Plugin) warn(ctx context.Context, pod *v1.Pod, text string) {
	if text != "" {
		p.Handle.EventRecorder().WithLogger(klog.FromContext(ctx)).Eventf(pod, nil, v1.EventTypeWarning, "SharesNotGPUs", "Binding", "%s", text)
	}
}

// unbound says that the binding of a pod came to nothing, and what becomes of it
// where its gang runs without it.
func (p *Plugin) unbound(pod *v1.Pod, nodeName string, err error) *fwk.Status {
	if gang, also := p.Cluster.Answered(pod.UID, err); gang != "" {
		err = fmt.Errorf("gang %s runs without this pod, whose place on node %s is kept for it%s: %w", gang, nodeName, also, err)
	}
	return fwk.AsStatus(err)
}
