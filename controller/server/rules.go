package server

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/crd"
	"berth.dev/berth/internal/rights"
)

// RoleName is the name of the controllers' ClusterRole, and of their Role in the
// namespace of the lease.
const RoleName = "berth-controller"

// Rules is what the controllers need in the whole cluster, and no more: a test in
// package notebook holds it to what they ask. deploy/controller.yaml has the same.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		// A notebook's annotations and status are written, never its spec.
		rights.Rule(kubeflow.Group, "notebooks", "list", "watch", "patch"),
		rights.Rule(kubeflow.Group, "notebooks/status", "patch"),
		// Where owner references are checked, who makes a child must have this.
		rights.Rule(kubeflow.Group, "notebooks/finalizers", "update"),
		// What a notebook is made of.
		rights.Rule("apps", "statefulsets", "get", "list", "watch", "create", "update", "patch"),
		rights.Rule("", "services", "get", "list", "watch", "create", "update"),
		rights.Rule("networking.istio.io", "virtualservices", "get", "create", "update"),
		// A pod is deleted when its notebook changes.
		rights.Rule("", "pods", "list", "watch", "delete"),
		// Why a notebook waits, and what is told of it.
		rights.Rule("", "events", "list", "watch", "create", "patch"),
		rights.Rule("events.k8s.io", "events", "create", "patch"),
		rights.Rule("", "nodes", "list"),
		rights.Rule("", "namespaces resourcequotas", "list", "watch"),
		// Whether anybody uses a notebook's GPUs: their exporter.
		rights.Rule("", "pods/proxy", "get"),
		// Whether another controller runs notebooks.
		rights.Rule("apps", "deployments", "list", "watch"),
		// Who asks for metrics, and whether they may.
		rights.Rule("authentication.k8s.io", "tokenreviews", "create"),
		rights.Rule("authorization.k8s.io", "subjectaccessreviews", "create"),
	}
}

// ProxiedRules is what they need beside Rules to ask notebooks through the API server:
// see idle.Options.Proxied.
func ProxiedRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{rights.Rule("", "services/proxy", "get")}
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

// ExporterRules is what they need in api.MetricsNamespace to read the metrics of Berth's
// node agents, which name pods and are not for everyone. Without it the GPUs of notebooks
// there are not known to be idle.
func ExporterRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{rights.Named(rights.Rule("", "serviceaccounts/token", "create"), api.MetricsReader)}
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
		// Bound in the cluster, as profiles are of no namespace: the profiles alone.
		role("berth-profile-view", nil, rights.Rule("berth.dev", "notebookprofiles", rights.Read...)),
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
