package request

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

// BudgetOfBerth is the value of the label api.LabelManagedBy on disruption budgets that Berth writes.
const BudgetOfBerth = "berth"

// Yields reports whether a disruption budget does not count when Berth's scheduler evicts pods: it is one that Berth writes for a workload
// by default. It is there for drains, and for other programs that move pods. Priorities and quota decide about GPUs, and nominal quota is
// always returned.
func Yields(b *policyv1.PodDisruptionBudget) bool {
	return b.Labels[api.LabelManagedBy] == BudgetOfBerth && metav1.GetControllerOfNoCopy(b) != nil
}
