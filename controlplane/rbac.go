package controlplane

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// fleetUser is who the simulated nodes are to the API server, and the name of
// its ClusterRole.
const fleetUser = "berth:fleet"

// fleetRules is what the simulated nodes may do: what kubelets, a volume
// provisioner and a DaemonSet installer do.
func fleetRules() []rbacv1.PolicyRule {
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	return []rbacv1.PolicyRule{
		rule("", []string{"nodes", "nodes/status", "pods", "pods/status"}, "get", "list", "watch", "create", "update", "patch", "delete"),
		rule("", []string{"events"}, "create", "patch", "update"),
		rule("events.k8s.io", []string{"events"}, "create", "patch", "update"),
		rule("", []string{"configmaps", "secrets", "services", "persistentvolumeclaims", "namespaces"}, "get", "list", "watch"),
		rule("", []string{"persistentvolumes"}, "get", "list", "watch", "create", "update", "patch", "delete"),
		rule("", []string{"namespaces", "services"}, "create"),
		rule("apps", []string{"daemonsets", "deployments", "replicasets"}, "get", "list", "watch", "create"),
		rule("discovery.k8s.io", []string{"endpointslices"}, "get", "create", "update"),
		rule("storage.k8s.io", []string{"storageclasses"}, "get", "list", "watch", "create"),
		rule("apiregistration.k8s.io", []string{"apiservices"}, "get", "create", "update"),
		rule("coordination.k8s.io", []string{"leases"}, "get", "list", "watch", "create", "update", "delete"),
	}
}

// grantFleet makes the fleet's ClusterRole and binding, or brings them up to date.
func grantFleet(ctx context.Context, client kubernetes.Interface) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fleetUser}, Rules: fleetRules()}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: fleetUser},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: fleetUser},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: fleetUser}},
	}
	_, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = client.RbacV1().ClusterRoles().Update(ctx, role, metav1.UpdateOptions{})
	}
	if err == nil {
		_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("give the fleet its role: %w", err)
	}
	return nil
}
