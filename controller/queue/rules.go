package queue

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/internal/rights"
)

// Rules returns the rights that the controller needs in the whole cluster, and no more.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule("berth.dev", "queues", "list", "watch"),
		rights.Rule("berth.dev", "queues/status", "patch"),
		// What queues count: pods, on nodes, of namespaces.
		rights.Rule("", "pods nodes namespaces", "list", "watch"),
		// What maxRunTime and HoldAndDrain end: pods, and notebooks, which are stopped.
		rights.Rule("", "pods/eviction", "create"),
		rights.Rule(kubeflow.Group, "notebooks", "patch"),
	}
}
