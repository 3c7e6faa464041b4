package can

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// OnNodes returns the pods that a DaemonSet makes of its template, of which pod is one: a pod for each of nodes that it selects and
// whose taints it tolerates, in their order, which must run there. They tolerate what the DaemonSet controller adds
// (pkg/controller/daemon/util/daemonset_util.go in kubernetes/kubernetes).
func OnNodes(pod *v1.Pod, nodes []*v1.Node) (out []*v1.Pod) {
	base := pod.DeepCopy()
	added := []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable, v1.TaintNodeDiskPressure, v1.TaintNodeMemoryPressure, v1.TaintNodePIDPressure, v1.TaintNodeUnschedulable}
	if base.Spec.HostNetwork {
		added = append(added, v1.TaintNodeNetworkUnavailable)
	}
	for i, key := range added {
		effect := v1.TaintEffectNoSchedule
		if i < 2 {
			effect = v1.TaintEffectNoExecute
		}
		base.Spec.Tolerations = append(base.Spec.Tolerations, v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: effect})
	}
	keepsOff := func(t *v1.Taint) bool {
		return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
	}
	for _, n := range nodes {
		if ok, err := nodeaffinity.GetRequiredNodeAffinity(base).Match(n); err != nil || !ok {
			continue
		}
		if _, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, base.Spec.Tolerations, keepsOff, false); untolerated {
			continue
		}
		p := base.DeepCopy()
		p.Name = pod.Name + "-" + n.Name
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &v1.Affinity{}
		}
		if p.Spec.Affinity.NodeAffinity == nil {
			p.Spec.Affinity.NodeAffinity = &v1.NodeAffinity{}
		}
		p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{n.Name}}},
		}}}
		out = append(out, p)
	}
	return out
}
