package nodeindex

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/state"
)

// learn tells the policy of the pods that are on the nodes already, by age, as if
// they came now: a scheduler that has just started, or has come to lead, knows by
// them what is commonly asked for. Pods that come with each node tell nothing.
func (w *View) learn(nodes []fwk.NodeInfo) {
	var pods []*v1.Pod
	for _, info := range nodes {
		for _, pi := range info.GetPods() {
			if !request.OnEveryNode(pi.GetPod()) {
				pods = append(pods, pi.GetPod())
			}
		}
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, pod := range pods {
		if r, _, err := w.Request(pod, state.NewRequest(pod, request.Parts(pod))); err == nil {
			w.Index.Arrive(&r)
		}
	}
}
