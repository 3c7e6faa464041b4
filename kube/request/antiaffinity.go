package request

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Apart tells pods that may not be on one node with others of their kind: it is
// equal for those that keep one another away, and "" for others. It is the
// selector of a required pod anti-affinity by node that selects the pod itself,
// as training jobs have it that want one worker on each node.
func Apart(pod *v1.Pod) string {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return ""
	}
	for _, term := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		here := term.NamespaceSelector == nil && (len(term.Namespaces) == 0 || slices.Contains(term.Namespaces, pod.Namespace))
		if term.TopologyKey != v1.LabelHostname || !here {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			return selector.String()
		}
	}
	return ""
}
