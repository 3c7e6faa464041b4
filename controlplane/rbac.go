package controlplane

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/scheduler/server"
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

// grantFleet gives the simulated nodes their role.
func grantFleet(ctx context.Context, client kubernetes.Interface) error {
	return grant(ctx, client, fleetUser, fleetUser, fleetRules())
}

// grantScheduler gives the scheduler what Berth's plugins need beside upstream's
// roles.
func (p *plane) grantScheduler(ctx context.Context, client kubernetes.Interface) error {
	if p.state.Scheduler != SchedulerBerth {
		return nil
	}
	return grant(ctx, client, "berth:scheduler", schedulerUser, server.Rules())
}

// grant makes a ClusterRole and its binding to a user, or brings them up to date.
func grant(ctx context.Context, client kubernetes.Interface, name, user string, rules []rbacv1.PolicyRule) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}
	err := putRole(ctx, client, role)
	if err == nil {
		_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("give %s its role: %w", user, err)
	}
	return nil
}
