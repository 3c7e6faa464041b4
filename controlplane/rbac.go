package controlplane

import (
	"context"
	"fmt"
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/api"
	"berth.dev/berth/scheduler/server"
)

// ownerUser is who the owner of the cluster is to the API server. The owner has all
// permissions, and may name the user that it creates an object for.
const ownerUser = "berth:admin"

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
		rule("", []string{"services/status"}, "patch"),
		rule("apps", []string{"daemonsets", "deployments", "replicasets"}, "get", "list", "watch", "create"),
		rule("discovery.k8s.io", []string{"endpointslices"}, "get", "list", "watch", "create", "update", "delete"),
		rule("node.k8s.io", []string{"runtimeclasses"}, "get", "create"),
		rule("storage.k8s.io", []string{"storageclasses"}, "get", "list", "watch", "create"),
		rule("apiregistration.k8s.io", []string{"apiservices"}, "get", "create", "update"),
		rule("coordination.k8s.io", []string{"leases"}, "get", "list", "watch", "create", "update", "delete"),
	}
}

// grantFleet grants the simulated nodes their role.
func grantFleet(ctx context.Context, client kubernetes.Interface) error {
	return grant(ctx, client, fleetUser, fleetUser, fleetRules())
}

// grantOwner grants the owner all permissions, by a binding that can be removed, and the
// precedence that the API server gives system:masters; and gives the API server those
// that real kubelets ask it for.
func grantOwner(ctx context.Context, client kubernetes.Interface) error {
	err := bind(ctx, client, api.GroupAdmins, "cluster-admin", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: api.GroupAdmins})
	if err == nil {
		err = bind(ctx, client, "berth:kubelet-api", "system:kubelet-api-admin", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: kubeletClient})
	}
	if err != nil {
		return err
	}
	all := []string{"*"}
	_, err = client.FlowcontrolV1().FlowSchemas().Create(ctx, &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: "berth-cluster-admins"},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: flowcontrolv1.PriorityLevelConfigurationNameExempt},
			MatchingPrecedence:         2, // after the one of system:masters
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects:         []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: api.GroupAdmins}}},
				ResourceRules:    []flowcontrolv1.ResourcePolicyRule{{Verbs: all, APIGroups: all, Resources: all, Namespaces: all, ClusterScope: true}},
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: all, NonResourceURLs: all}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the precedence of %s: %w", api.GroupAdmins, err)
	}
	return nil
}

// bind binds a ClusterRole that is there to a subject, unless a binding of that name
// is there: it may have been narrowed.
func bind(ctx context.Context, client kubernetes.Interface, name, role string, to rbacv1.Subject) error {
	_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{to},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the role of %s: %w", to.Name, err)
	}
	return nil
}

// grantScheduler grants the scheduler what Berth's plugins need beside upstream's
// roles.
func (p *plane) grantScheduler(ctx context.Context, client kubernetes.Interface) error {
	if p.state.Scheduler != SchedulerBerth {
		return nil
	}
	return grant(ctx, client, "berth:scheduler", schedulerUser, slices.Concat(server.Rules(), server.PoolRules(), server.RunTimeRules()))
}

// grant makes a ClusterRole and its binding to a user, or brings them up to date.
func grant(ctx context.Context, client kubernetes.Interface, name, user string, rules []rbacv1.PolicyRule) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	if err := putRole(ctx, client, role); err != nil {
		return fmt.Errorf("create the role of %s: %w", user, err)
	}
	return bind(ctx, client, name, name, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user})
}
