package server

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/internal/rights"
	"berth.dev/berth/kube/pool"
	"berth.dev/berth/kube/runs"
	"berth.dev/berth/scheduler/admission"
)

// RoleName is the name of the scheduler's ClusterRole, and of its Role in the
// namespace of the lease.
const RoleName = "berth-scheduler"

// Rules is what a scheduler with Berth's plugins needs in the whole cluster. It
// is upstream's role system:kube-scheduler, apart from the lease, and what
// Berth's plugins add. deploy/scheduler.yaml has the same.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule("", "nodes namespaces services replicationcontrollers persistentvolumeclaims persistentvolumes", rights.Read...),
		rights.Rule("", "pods", "get", "list", "watch", "delete"),
		rights.Rule("", "pods/binding bindings", "create"),
		rights.Rule("", "pods/status", "patch", "update"),
		rights.Rule("", "pods/finalizers", "update"),
		rights.Rule("", "events", "create", "patch", "update"),
		rights.Rule("events.k8s.io", "events", "create", "patch", "update"),
		rights.Rule("apps", "replicasets statefulsets deployments daemonsets", rights.Read...),
		rights.Rule("policy", "poddisruptionbudgets", rights.Read...),
		// Which PriorityClass pods get that name none, for why others wait.
		rights.Rule("scheduling.k8s.io", "priorityclasses", rights.Read...),
		// How many GPUs the pods of a namespace hold together; see docs/reference/queue.md.
		rights.Rule("berth.dev", "queues", rights.Read...),
		// Which workloads were evicted to return quota.
		rights.Rule("berth.dev", "queues/status", "patch"),
		// Which priority pods have in the lines of queues, apart from their own.
		rights.Rule("kueue.x-k8s.io", "workloadpriorityclasses", rights.Read...),
		// Who says how many pods a gang has; see docs/background/gangs.md.
		rights.Rule("batch", "jobs cronjobs", rights.Read...),
		// Which are resumed in their turn; see docs/queues.md.
		rights.Rule("batch", "jobs", "patch"),
		rights.Rule("kubeflow.org", "tfjobs pytorchjobs", "patch"),
		rights.Rule("trainer.kubeflow.org", "trainjobs", "patch"),
		rights.Rule("jobset.x-k8s.io", "jobsets", rights.Read...),
		// Whose users pods have that they own; see docs/queues.md.
		rights.Rule("kubeflow.org", "notebooks tfjobs pytorchjobs", rights.Read...),
		rights.Rule("trainer.kubeflow.org", "trainjobs", rights.Read...),
		rights.Rule("serving.kserve.io", "inferenceservices", rights.Read...),
		rights.Rule("scheduling.k8s.io", "podgroups", rights.Read...),
		rights.Rule("scheduling.x-k8s.io", "podgroups", rights.Read...),
		rights.Rule("scheduling.volcano.sh", "podgroups", rights.Read...),
		rights.Rule("scheduling.run.ai", "podgroups", rights.Read...),
		// The volume binder chooses volumes, and writes them.
		rights.Rule("", "persistentvolumes persistentvolumeclaims", "patch", "update"),
		rights.Rule("storage.k8s.io", "storageclasses csinodes csidrivers csistoragecapacities volumeattachments", rights.Read...),
		// Claims of devices that other drivers give (dynamic resource allocation).
		rights.Rule("resource.k8s.io", "deviceclasses resourceslices", rights.Read...),
		rights.Rule("resource.k8s.io", "resourceclaims", "get", "list", "watch", "create", "update", "patch", "delete"),
		rights.Rule("resource.k8s.io", "resourceclaims/status", "get", "list", "watch", "update", "patch"),
		rights.Rule("resource.k8s.io", "resourceclaims/binding", "update", "patch"),
		// Who asks for metrics, and whether they may.
		rights.Rule("authentication.k8s.io", "tokenreviews", "create"),
		rights.Rule("authorization.k8s.io", "subjectaccessreviews", "create"),
	}
}

// PolicyRules is what the scheduler needs to apply its admission policies itself.
// Without these rights an administrator must apply them. The API cannot limit create
// to some names, and admission policies do not apply to admission policies. An
// existing binding is left unchanged, but for that of the policy whose parameter is the lease: the API server
// asks of who creates that whether they may read all leases.
func PolicyRules() []rbacv1.PolicyRule {
	const group = "admissionregistration.k8s.io"
	return []rbacv1.PolicyRule{
		rights.Rule(group, "validatingadmissionpolicies validatingadmissionpolicybindings", "create"),
		rights.Named(rights.Rule(group, "validatingadmissionpolicies", "get", "update"), admission.Names()...),
		rights.Named(rights.Rule(group, "validatingadmissionpolicybindings", "get", "update"), admission.LeaderName),
		rights.Rule("coordination.k8s.io", "leases", "get"),
		rights.Rule(group, "mutatingadmissionpolicies mutatingadmissionpolicybindings", "create"),
		rights.Named(rights.Rule(group, "mutatingadmissionpolicies", "get", "update"), admission.UsersName),
	}
}

// PoolRules is what it needs to know of declared pools, in their namespace. Without
// them it takes every pod that fits nowhere for one that a new node would help.
func PoolRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{rights.Named(rights.Rule("", "configmaps", "get"), pool.Name)}
}

// RunTimeRules is what it needs to remember how long pods run, in runs.Namespace. Without them it begins to learn
// after each start. RBAC cannot limit create to one name.
func RunTimeRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule("", "configmaps", "create"),
		rights.Named(rights.Rule("", "configmaps", "get", "update"), runs.Name),
	}
}

// LeaseRules is what it needs in the namespace of its lease. The API knows no
// name when something is created, so that create cannot be given for one alone.
func LeaseRules(name string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule("coordination.k8s.io", "leases", "create"),
		rights.Named(rights.Rule("coordination.k8s.io", "leases", "get", "update"), name),
	}
}

// checkRights returns an error that names the missing rights. Without them watches
// would wait forever and report it only in the log.
func checkRights(ctx context.Context, client kubernetes.Interface, user string, lease *Lease) error {
	needs := []rights.Need{{Rules: Rules()}}
	if lease != nil {
		needs = append(needs, rights.Need{Namespace: lease.Namespace, Rules: LeaseRules(lease.Name)})
	}
	return rights.Require(ctx, client, user, "deploy/scheduler.yaml", needs...)
}
