package server

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/crd"
	"berth.dev/berth/kube/rights"
)

// RoleName is the name of the controllers' ClusterRole, and of their Role in the
// namespace of the lease.
const RoleName = "berth-controller"

var (
	rule  = rights.Rule
	read  = rights.Read
	write = []string{"get", "list", "watch", "create", "update", "patch"}
)

// Rules is what the controllers need in the whole cluster. deploy/controller.yaml
// has the same.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		// A notebook's annotations and status are written, never its spec.
		rule(kubeflow.Group, "notebooks", "get", "list", "watch", "patch"),
		rule(kubeflow.Group, "notebooks/status", "patch", "update"),
		// Where owner references are checked, who makes a child must have this.
		rule(kubeflow.Group, "notebooks/finalizers", "update"),
		// What a notebook is made of.
		rule("apps", "statefulsets", write...),
		rule("", "services", write...),
		rule("networking.istio.io", "virtualservices", write...),
		// A pod is deleted when its notebook changes.
		rule("", "pods", "get", "list", "watch", "delete"),
		// Why a notebook waits, and what is told of it.
		rule("", "events", "get", "list", "watch", "create", "patch", "update"),
		rule("events.k8s.io", "events", "create", "patch", "update"),
		rule("", "nodes namespaces resourcequotas", read...),
		// Whether anybody uses a notebook: its server, and the exporter of its GPUs.
		rule("", "services/proxy pods/proxy", "get"),
		// Whether another controller runs notebooks.
		rule("apps", "deployments", read...),
		// Who asks for metrics, and whether they may.
		rule("authentication.k8s.io", "tokenreviews", "create"),
		rule("authorization.k8s.io", "subjectaccessreviews", "create"),
	}
}

// DefinitionRules is what they need to bring the definitions of their kinds. Without
// them somebody who may must apply what `berth controller --print-definitions` prints.
func DefinitionRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Named(rule(crd.Resource.Group, crd.Resource.Resource, "get", "create", "patch"), crd.Names()...),
	}
}

// OwnRules is what they need in the namespace of the lease, of which name is the
// name, and of the record of the modes. The API knows no name when a lease is
// created, so that create cannot be given for one alone.
func OwnRules(name string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("coordination.k8s.io", "leases", "create"),
		rights.Named(rule("coordination.k8s.io", "leases", "get", "update"), name),
		rights.Named(rule("", "configmaps", "create", "patch"), name),
	}
}

// aggregate makes a role part of the roles that Kubernetes brings.
func aggregate(to ...string) map[string]string {
	labels := map[string]string{}
	for _, name := range to {
		labels[rbacv1.GroupName+"/aggregate-to-"+name] = "true"
	}
	return labels
}

// Roles are the ClusterRoles for people: whom to bind is the cluster's to say.
// Those who may edit a namespace may use notebooks there, and those who may view it
// see them, without a binding.
func Roles() []rbacv1.ClusterRole {
	role := func(name string, labels map[string]string, rules ...rbacv1.PolicyRule) rbacv1.ClusterRole {
		return rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Rules: rules}
	}
	all := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	use := []rbacv1.PolicyRule{
		rule(kubeflow.Group, "notebooks", all...),
		rule("berth.dev", "notebookprofiles", read...),
		rule("", "pods pods/log services events resourcequotas", read...),
		rule("", "pods/exec pods/portforward", "get", "create"),
		rule("", "persistentvolumeclaims", "get", "list", "watch", "create"),
		rule("apps", "statefulsets", read...),
	}
	return []rbacv1.ClusterRole{
		// Bound in a namespace: notebooks there, and nowhere else.
		role("berth-notebook-user", aggregate("edit", "admin"), use...),
		role("berth-notebook-view", aggregate("view"),
			rule(kubeflow.Group, "notebooks", read...), rule("berth.dev", "notebookprofiles", read...)),
		// Bound in the cluster: everybody's notebooks, the profiles that they are made
		// of, who holds which GPU, and the policies of namespaces.
		role("berth-notebook-admin", nil,
			append(use[:len(use):len(use)],
				rule("berth.dev", "notebookprofiles", all...),
				rule("", "nodes", read...),
				rule("", "namespaces", "get", "list", "watch", "patch"),
				rule("", "pods", "delete"))...),
	}
}

// join is a list for people.
func join(list []string) string { return strings.Join(list, ", ") }
