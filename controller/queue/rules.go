package queue

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/runtime"
	"berth.dev/berth/internal/rights"
	"berth.dev/berth/kube/queues"
)

// Rules returns the rights that the controller needs in the whole cluster, and no more.
func Rules() []rbacv1.PolicyRule {
	return append([]rbacv1.PolicyRule{
		rights.Rule("berth.dev", "queues", "list", "watch"),
		rights.Rule("berth.dev", "queues/status", "patch"),
		// What queues count: pods, on nodes, of namespaces.
		rights.Rule("", "pods nodes namespaces", "list", "watch"),
		// And Jobs and training jobs that wait for their turn without pods.
		rights.Rule("batch", "jobs", "list", "watch"),
		rights.Rule(kubeflow.Group, "tfjobs pytorchjobs", "list", "watch"),
		rights.Rule("trainer.kubeflow.org", "trainjobs", "list", "watch"),
		// Which PriorityClasses pods can get by default.
		rights.Rule("scheduling.k8s.io", "priorityclasses", "list", "watch"),
		// Which priority pods have in the lines of queues, apart from their own.
		rights.Rule("kueue.x-k8s.io", "workloadpriorityclasses", "list", "watch"),
		// What maxRunTime and HoldAndDrain end: pods, and notebooks, which are stopped.
		rights.Rule("", "pods/eviction", "create"),
		rights.Rule(kubeflow.Group, "notebooks", "patch"),
	}, runtime.OwnerRules()...) // the users of pods, where a queue counts by user
}

// ClassRules returns the rights that giving pods their default PriorityClasses needs. Without them a
// Queue that has some says so, and pods get none.
func ClassRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{rights.Named(
		rights.Rule("admissionregistration.k8s.io", "mutatingadmissionpolicies mutatingadmissionpolicybindings", "create", "patch", "delete"), queues.DefaultClassesName)}
}
