package preempt

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// check asks the framework's filters whether a pod could go to a node without
// gone. They have what they need of the pod in state, as none has refused it for
// good.
func (x *Preemption) check(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string, gone []*v1.Pod) *fwk.Status {
	info, err := x.p.Nodes().Get(node)
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
		if st := x.p.Handle.RunPreFilterExtensionRemovePod(ctx, state, pod, pi, without); !st.IsSuccess() {
			return st
		}
	}
	return x.p.Handle.RunFilterPluginsWithNominatedPods(ctx, state, pod, without)
}
