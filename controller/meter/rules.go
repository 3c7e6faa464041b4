package meter

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/internal/rights"
)

// Rules returns the rights that a meter needs in the whole cluster. It only reads.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule("", "pods nodes namespaces", "list", "watch"),
		rights.Rule("berth.dev", "queues", "list", "watch"),
		// The users of pods: the objects above them.
		rights.Rule("", "replicationcontrollers", "get"),
		rights.Rule("apps", "replicasets deployments statefulsets daemonsets", "get"),
		rights.Rule("batch", "jobs cronjobs", "get"),
		rights.Rule(kubeflow.Group, "notebooks tfjobs pytorchjobs", "get"),
		rights.Rule("jobset.x-k8s.io", "jobsets", "get"),
		rights.Rule("serving.kserve.io", "inferenceservices", "get"),
	}
}
