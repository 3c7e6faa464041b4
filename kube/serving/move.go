package serving

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/training"
)

// CostOfLeaving is the cost, in the annotation controller.kubernetes.io/pod-deletion-cost, of a pod that leaves its node: its ReplicaSet
// ends it before others.
const CostOfLeaving = "-2147483647"

// Leaves returns why a pod has to leave its node: the node is cordoned, as it is before a drain, or it will be gone soon. "" is that it
// stays, as does a pod that tolerates this: a new one could start on the same node.
func Leaves(n *corev1.Node, pod *corev1.Pod) string {
	key := training.Notice(n)
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; t.Key == key && keepsOut(t, pod) {
			return fmt.Sprintf("node %s has the taint %s, so it will be gone soon", n.Name, key)
		}
	}
	if n.Spec.Unschedulable && keepsOut(&corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}, pod) {
		return fmt.Sprintf("node %s is cordoned", n.Name)
	}
	return ""
}

// keepsOut reports whether no pod like this one starts on a node with a taint.
func keepsOut(t *corev1.Taint, pod *corev1.Pod) bool {
	if t.Effect == corev1.TaintEffectPreferNoSchedule {
		return false
	}
	for i := range pod.Spec.Tolerations {
		if pod.Spec.Tolerations[i].ToleratesTaint(klog.Background(), t, false) {
			return false
		}
	}
	return true
}

// Move says on the Deployment how many of its replicas are there only while others leave their nodes. Call it before Seal.
func (c *Children) Move(extra int) {
	if extra > 0 {
		c.Deployment["metadata"].(map[string]any)["annotations"].(map[string]any)[api.AnnotationMoving] = fmt.Sprint(extra)
	}
}

// Budget makes the PodDisruptionBudget of a service, by which no replica is evicted if fewer than least answer then. Those that do not answer
// may be.
func (w *Written) Budget(least int) (map[string]any, error) {
	name := ChildName(w.object.Name)
	app := map[string]any{kserve.LabelApp: "isvc." + name}
	out := map[string]any{
		"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": w.childMeta(name, union(app, map[string]any{api.LabelInferenceService: w.object.Name, api.LabelManagedBy: request.BudgetOfBerth}), nil),
		"spec": map[string]any{"selector": map[string]any{"matchLabels": app}, "minAvailable": int64(least), "unhealthyPodEvictionPolicy": "AlwaysAllow"},
	}
	return out, seal(out)
}

// Covers reports whether a PodDisruptionBudget is about the pods of the service.
func (c *Children) Covers(b *policyv1.PodDisruptionBudget) bool {
	s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return false
	}
	template := c.Deployment["spec"].(map[string]any)["template"].(map[string]any)["metadata"].(map[string]any)
	set := labels.Set{}
	for key, value := range template["labels"].(map[string]any) {
		set[key] = text(value)
	}
	return s.Matches(set)
}
