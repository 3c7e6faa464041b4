package admit

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Reserve counts a pod that gets a node.
func (x *Queues) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	x.cluster.Quota.Reserve(pod, node)
	return nil
}

// Unreserve takes back what Reserve has counted.
func (x *Queues) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	x.cluster.Quota.Unreserve(pod)
}

// PostBind counts a pod that is bound, for the metrics of its queue.
func (x *Queues) PostBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	x.cluster.Quota.Bound(pod)
}
