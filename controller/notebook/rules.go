package notebook

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/internal/rights"
)

// Rules returns the rights that the controller of notebooks and the loop for idle
// ones need in the whole cluster, and no more: a test compares them with what the
// controllers request.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		// A notebook's annotations and status are written, never its spec.
		rights.Rule(kubeflow.Group, "notebooks", "list", "watch", "patch"),
		rights.Rule(kubeflow.Group, "notebooks/status", "patch"),
		// Where owner references are checked, the creator of a child needs this.
		rights.Rule(kubeflow.Group, "notebooks/finalizers", "update"),
		// The objects of a notebook.
		rights.Rule("apps", "statefulsets", "get", "list", "watch", "create", "update", "patch"),
		rights.Rule("", "services", "get", "list", "watch", "create", "update"),
		rights.Rule("networking.istio.io", "virtualservices", "get", "list", "watch", "create", "update"),
		// A pod is deleted when its notebook changes, and a server of a JupyterHub when it is idle.
		rights.Rule("", "pods", "list", "watch", "delete"),
		// Why a notebook waits, and the events that report it.
		rights.Rule("", "events", "list", "watch", "create", "patch"),
		rights.Rule("", "nodes", "list"),
		rights.Rule("", "namespaces resourcequotas", "list", "watch"),
		// Whether programs in a notebook work: the metrics API.
		rights.Rule("metrics.k8s.io", "pods", "get"),
		// Whether a notebook's GPUs are in use: their exporter.
		rights.Rule("", "pods/proxy", "get"),
	}
}

// aggregate returns labels that add a role to built-in roles of Kubernetes.
func aggregate(to ...string) map[string]string {
	labels := map[string]string{}
	for _, name := range to {
		labels[rbacv1.GroupName+"/aggregate-to-"+name] = "true"
	}
	return labels
}

// Roles returns the ClusterRoles for users. Users who may edit a namespace may use
// notebooks there, and users who may view it see them, without a binding.
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
		// Bound in a namespace: notebooks there only.
		role("berth-notebook-user", aggregate("edit", "admin"), use...),
		role("berth-notebook-view", aggregate("view"),
			rights.Rule(kubeflow.Group, "notebooks", rights.Read...), rights.Rule("berth.dev", "notebookprofiles", rights.Read...)),
		// Bound in the cluster, as profiles have no namespace: the profiles only.
		role("berth-profile-view", nil, rights.Rule("berth.dev", "notebookprofiles", rights.Read...)),
		// Bound in the cluster: all notebooks, their profiles, which pod holds which
		// GPU, and the policies of namespaces.
		role("berth-notebook-admin", nil,
			append(slices.Clip(use),
				rights.Rule("berth.dev", "notebookprofiles", all...),
				rights.Rule("", "nodes", rights.Read...),
				rights.Rule("", "namespaces", "get", "list", "watch", "patch"),
				rights.Rule("", "pods", "delete"))...),
	}
}
