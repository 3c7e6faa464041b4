package server

import (
	"slices"
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

var write = []string{"get", "list", "watch", "create", "update", "patch"}

// Rules is what the controllers need in the whole cluster. deploy/controller.yaml
// has the same.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		// A notebook's annotations and status are written, never its spec.
		rights.Rule(kubeflow.Group, "notebooks", "get", "list", "watch", "patch"),
		rights.Rule(kubeflow.Group, "notebooks/status", "patch", "update"),
		// Where owner references are checked, who makes a child must have this.
		rights.Rule(kubeflow.Group, "notebooks/finalizers", "update"),
		// What a notebook is made of.
		rights.Rule("apps", "statefulsets", write...),
		rights.Rule("", "services", write...),
		rights.Rule("networking.istio.io", "virtualservices", write...),
		// A pod is deleted when its notebook changes.
		rights.Rule("", "pods", "get", "list", "watch", "delete"),
		// Why a notebook waits, and what is told of it.
		rights.Rule("", "events", "get", "list", "watch", "create", "patch", "update"),
		rights.Rule("events.k8s.io", "events", "create", "patch", "update"),
		rights.Rule("", "nodes namespaces resourcequotas", rights.Read...),
		// Whether anybody uses a notebook: its server, and the exporter of its GPUs.
		rights.Rule("", "services/proxy pods/proxy", "get"),
		// Whether another controller runs notebooks.
		rights.Rule("apps", "deployments", rights.Read...),
		// Who asks for metrics, and whether they may.
		rights.Rule("authentication.k8s.io", "tokenreviews", "create"),
		rights.Rule("authorization.k8s.io", "subjectaccessreviews", "create"),
	}
}

// DefinitionRules is what they need to bring the definitions of their kinds. Without
// them somebody who may must apply what `berth controller --print-definitions` prints.
func DefinitionRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Named(rights.Rule(crd.Resource.Group, crd.Resource.Resource, "get", "create", "patch"), crd.Names()...),
	}
}

// OwnRules is what they need in the namespace of the lease, of which name is the
// name, and of the record of the modes. The API knows no name when a lease is
// created, so that create cannot be given for one alone.
func OwnRules(name string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule("coordination.k8s.io", "leases", "create"),
		rights.Named(rights.Rule("coordination.k8s.io", "leases", "get", "update"), name),
		rights.Named(rights.Rule("", "configmaps", "create", "patch"), name),
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
		rights.Rule(kubeflow.Group, "notebooks", all...),
		rights.Rule("berth.dev", "notebookprofiles", rights.Read...),
		rights.Rule("", "pods pods/log services events resourcequotas", rights.Read...),
		rights.Rule("", "pods/exec pods/portforward", "get", "create"),
		rights.Rule("", "persistentvolumeclaims", "get", "list", "watch", "create"),
		rights.Rule("apps", "statefulsets", rights.Read...),
	}
	return []rbacv1.ClusterRole{
		// Bound in a namespace: notebooks there, and nowhere else.
		role("berth-notebook-user", aggregate("edit", "admin"), use...),
		role("berth-notebook-view", aggregate("view"),
			rights.Rule(kubeflow.Group, "notebooks", rights.Read...), rights.Rule("berth.dev", "notebookprofiles", rights.Read...)),
		// Bound in the cluster: everybody's notebooks, the profiles that they are made
		// of, who holds which GPU, and the policies of namespaces.
		role("berth-notebook-admin", nil,
			append(slices.Clip(use),
				rights.Rule("berth.dev", "notebookprofiles", all...),
				rights.Rule("", "nodes", rights.Read...),
				rights.Rule("", "namespaces", "get", "list", "watch", "patch"),
				rights.Rule("", "pods", "delete"))...),
	}
}

// join is a list for people.
func join(list []string) string { return strings.Join(list, ", ") }
