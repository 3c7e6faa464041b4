package explain

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/request"
)

// BlockingBudgets finds the disruption budgets that keep pods of lower priority on nodes that
// pod could use from being evicted for it now, in the order of budgets. Which pods are evicted
// in the end is the scheduler's decision.
func (t *Cluster) BlockingBudgets(pod *v1.Pod, budgets []policyv1.PodDisruptionBudget) []reasons.Blocked {
	if len(budgets) == 0 && !request.NeverPreempts(pod) {
		return nil
	}
	var lower []*v1.Pod // that hold GPUs on nodes which would do
	a := t.askOf(pod)
	for _, n := range t.nodes {
		if gaps := (reasons.NodeGaps{Gaps: t.gaps(a, n)}); len(gaps.Gaps) == 0 || gaps.Worst() != reasons.Waits {
			continue
		}
		for _, p := range t.on[n.Name] {
			if request.AsksForGPUs(p) && request.Priority(p) < request.Priority(pod) {
				lower = append(lower, p)
			}
		}
	}
	if request.NeverPreempts(pod) {
		if len(lower) == 0 {
			return nil
		}
		return []reasons.Blocked{{Pods: len(lower)}}
	}
	var out []reasons.Blocked
	for i := range budgets {
		b := &budgets[i]
		keeps := keptBy(b)
		kept := slices.DeleteFunc(slices.Clone(lower), func(p *v1.Pod) bool { return !keeps(p) })
		if len(kept) > 0 {
			out = append(out, reasons.Blocked{Budget: b.Namespace + "/" + b.Name, Pods: len(kept)})
		}
	}
	return out
}

// keptBy returns what reports whether a disruption budget keeps a pod now.
func keptBy(b *policyv1.PodDisruptionBudget) func(*v1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil || request.Yields(b) || b.Status.DisruptionsAllowed > 0 {
		return func(*v1.Pod) bool { return false }
	}
	return func(p *v1.Pod) bool { return p.Namespace == b.Namespace && selector.Matches(labels.Set(p.Labels)) }
}
