package training

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/trainer"
	rules "berth.dev/berth/core/training"
	"berth.dev/berth/internal/rights"
	objects "berth.dev/berth/kube/training"
)

// rules returns the rights that the controller of a kind needs in the whole cluster, and no
// more.
func (k *kind) rules() []rbacv1.PolicyRule {
	group := objects.ResourceOf(string(k.kind)).Group
	out := []rbacv1.PolicyRule{
		// A job's annotations and status are written, and of its spec whether it is suspended. One is deleted at the end of its time to live.
		rights.Rule(group, k.plural(), "get", "list", "watch", "patch", "delete"),
		rights.Rule(group, k.plural()+"/status", "patch"),
		// Where owner references are checked, the creator of a child needs this.
		rights.Rule(group, k.plural()+"/finalizers", "update"),
		// The objects of a job.
		rights.Rule("", "pods services", "get", "list", "watch", "create", "delete"),
		rights.Rule("", "events", "create", "patch"),
		// Jobs leave a node that will be gone soon, as its taints say.
		rights.Rule("", "nodes", "list", "watch"),
		// After how long without use jobs of a namespace are suspended, and whether their GPUs and CPUs are in use.
		rights.Rule("", "namespaces", "list", "watch"),
		rights.Rule("", "pods/proxy", "get"),
		rights.Rule("metrics.k8s.io", "pods", "get"),
	}
	if k.kind != rules.TrainJob {
		// Pods and Services that no controller has become the job's, if they are its members.
		out = append(out, rights.Rule("", "pods services", "patch"))
	}
	if k.kind == rules.PyTorchJob {
		// That of an elastic job with metrics.
		out = append(out, rights.Rule("autoscaling", "horizontalpodautoscalers", "get", "list", "watch", "create", "patch", "delete"))
	}
	if k.kind == rules.TrainJob {
		out = append(out, rights.Rule(group, "clustertrainingruntimes trainingruntimes", "get"))
	}
	return out
}

// RoleRuntimes is the ClusterRole that reads the training runtimes of the cluster. All authenticated users have it, as with upstream's
// trainer: rights in a namespace do not reach them, and Kubeflow's client reads the runtime of each job.
const RoleRuntimes = "berth-training-runtimes"

// Roles returns the ClusterRoles for users. Users who may edit a namespace may use training jobs
// there, and users who may view it see them, without a binding.
func Roles() []rbacv1.ClusterRole {
	role := func(name string, to []string, verbs ...string) rbacv1.ClusterRole {
		labels := map[string]string{}
		for _, t := range to {
			labels[rbacv1.GroupName+"/aggregate-to-"+t] = "true"
		}
		return rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Rules: []rbacv1.PolicyRule{
				rights.Rule(kubeflow.Group, "tfjobs pytorchjobs", verbs...),
				rights.Rule(kubeflow.Group, "tfjobs/status pytorchjobs/status", "get"),
				rights.Rule(trainer.Group, "trainjobs trainingruntimes", verbs...),
				rights.Rule(trainer.Group, "trainjobs/status", "get"),
				rights.Rule(trainer.Group, "clustertrainingruntimes", rights.Read...),
				rights.Rule("", "pods pods/log events", rights.Read...),
			},
		}
	}
	return []rbacv1.ClusterRole{
		role("berth-training-user", []string{"edit", "admin"}, "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
		role("berth-training-view", []string{"view"}, rights.Read...),
		{ObjectMeta: metav1.ObjectMeta{Name: RoleRuntimes}, Rules: []rbacv1.PolicyRule{rights.Rule(trainer.Group, "clustertrainingruntimes", rights.Read...)}},
	}
}
