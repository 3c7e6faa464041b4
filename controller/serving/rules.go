package serving

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	"berth.dev/berth/internal/rights"
	objects "berth.dev/berth/kube/serving"
)

// Rules returns the rights that the controller needs in the whole cluster, and no more.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		// The status of a service is written, never its spec.
		rights.Rule(kserve.Group, "inferenceservices", rights.Read...),
		rights.Rule(kserve.Group, "inferenceservices/status", "patch"),
		// Where owner references are checked, the creator of a child needs this.
		rights.Rule(kserve.Group, "inferenceservices/finalizers", "update"),
		rights.Rule(kserve.Group, "servingruntimes clusterservingruntimes", "list", "watch"),
		// The objects of a service.
		rights.Rule("apps", "deployments", "get", "list", "watch", "create", "patch"),
		rights.Rule("", "services", "get", "list", "watch", "create", "patch"),
		// Those of a canary, which go when it does.
		rights.Rule("apps", "deployments", "delete"),
		rights.Rule("", "services", "delete"),
		// Its revisions, to which it can go back.
		rights.Rule("apps", "controllerrevisions", "get", "list", "watch", "create", "patch", "delete"),
		// What its replicas wait for, and what a server says of its model.
		rights.Rule("", "pods", "list", "watch"),
		// Replicas that leave their nodes are ended first, and not evicted before others answer in their place.
		rights.Rule("", "pods", "patch"),
		rights.Rule("", "nodes", "list", "watch"),
		rights.Rule("policy", "poddisruptionbudgets", "get", "list", "watch", "create", "patch", "delete"),
		rights.Rule("", "pods/log", "get"),
		// Which Secrets the download of a model may use: their names, and not the Secrets.
		rights.Rule("", "serviceaccounts", "get"),
		// After how long without requests services of a namespace have no replicas.
		rights.Rule("", "namespaces", "list", "watch"),
		// What activators say of requests.
		rights.Rule("", "pods/proxy", "get"),
		rights.Rule("", "events", "create", "patch"),
	}
}

// RouteRules returns the rights that the controller needs beside Rules to have services reached from outside of the cluster: none, if they are not.
func RouteRules(o *objects.Outside) []rbacv1.PolicyRule {
	resource := map[string]string{objects.RouteGateway: "httproutes", objects.RouteIngress: "ingresses", objects.RouteIstio: "virtualservices"}[o.Way]
	if resource == "" {
		return nil
	}
	return []rbacv1.PolicyRule{rights.Rule(o.Kind().Group, resource, "get", "create", "patch", "delete")}
}

// ActivatorRules returns the rights that the controller needs in api.ActivatorNamespace to be told by activators what is asked of
// services. Without them requests are not counted.
func ActivatorRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{rights.Named(rights.Rule("", "serviceaccounts/token", "create"), api.StatsReader)}
}

// RoleRuntimes is the ClusterRole that reads the serving runtimes of the cluster, which all users have.
const RoleRuntimes = "berth-serving-runtimes"

// Roles returns the ClusterRoles for users. Users who may edit a namespace may use services there, and users who may view it
// see them, without a binding.
func Roles() []rbacv1.ClusterRole {
	role := func(name string, to []string, verbs ...string) rbacv1.ClusterRole {
		labels := map[string]string{}
		for _, t := range to {
			labels[rbacv1.GroupName+"/aggregate-to-"+t] = "true"
		}
		return rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Rules: []rbacv1.PolicyRule{
			rights.Rule(kserve.Group, "inferenceservices servingruntimes", verbs...),
			rights.Rule(kserve.Group, "inferenceservices/status", "get"),
			rights.Rule("", "pods pods/log services events", rights.Read...),
			rights.Rule("apps", "controllerrevisions", rights.Read...),
		}}
	}
	return []rbacv1.ClusterRole{
		role("berth-serving-user", []string{"edit", "admin"}, "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
		role("berth-serving-view", []string{"view"}, rights.Read...),
		{ObjectMeta: metav1.ObjectMeta{Name: RoleRuntimes}, Rules: []rbacv1.PolicyRule{rights.Rule(kserve.Group, "clusterservingruntimes", rights.Read...)}},
	}
}
