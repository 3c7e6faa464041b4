package explain

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
)

// Untolerated is the first taint that keeps a pod with these tolerations off a node
// for good. Taints of Kubernetes' own, such as not-ready, do not count: they pass.
func Untolerated(n *v1.Node, tolerations []v1.Toleration) (v1.Taint, bool) {
	return corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, tolerations, func(t *v1.Taint) bool {
		return t.Effect != v1.TaintEffectPreferNoSchedule && !strings.HasPrefix(t.Key, "node.kubernetes.io/")
	}, false)
}
