package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// RoleName is the name of the scheduler's ClusterRole, and of its Role in the
// namespace of the lease.
const RoleName = "berth-scheduler"

var read = []string{"get", "list", "watch"}

// rule is one rule of a role.
func rule(group, resources string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Fields(resources), Verbs: verbs}
}

// Rules is what a scheduler with Berth's plugins needs in the whole cluster. It
// is upstream's role system:kube-scheduler, apart from the lease, and what
// Berth's plugins add. deploy/scheduler.yaml has the same.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("", "nodes namespaces services replicationcontrollers persistentvolumeclaims persistentvolumes", read...),
		rule("", "pods", "get", "list", "watch", "delete"),
		rule("", "pods/binding bindings", "create"),
		rule("", "pods/status", "patch", "update"),
		rule("", "pods/finalizers", "update"),
		rule("", "events", "create", "patch", "update"),
		rule("events.k8s.io", "events", "create", "patch", "update"),
		rule("apps", "replicasets statefulsets", read...),
		rule("policy", "poddisruptionbudgets", read...),
		// Who says how many pods a gang has; see docs/gangs.md.
		rule("batch", "jobs", read...),
		rule("jobset.x-k8s.io", "jobsets", read...),
		rule("scheduling.k8s.io", "podgroups", read...),
		rule("scheduling.x-k8s.io", "podgroups", read...),
		rule("scheduling.volcano.sh", "podgroups", read...),
		rule("scheduling.run.ai", "podgroups", read...),
		// The volume binder chooses volumes, and writes them.
		rule("", "persistentvolumes persistentvolumeclaims", "patch", "update"),
		rule("storage.k8s.io", "storageclasses csinodes csidrivers csistoragecapacities volumeattachments", read...),
		// Claims of devices that other drivers give (dynamic resource allocation).
		rule("resource.k8s.io", "deviceclasses resourceslices", read...),
		rule("resource.k8s.io", "resourceclaims", "get", "list", "watch", "create", "update", "patch", "delete"),
		rule("resource.k8s.io", "resourceclaims/status", "get", "list", "watch", "update", "patch"),
		rule("resource.k8s.io", "resourceclaims/binding", "update", "patch"),
		// Who asks for metrics, and whether they may.
		rule("authentication.k8s.io", "tokenreviews", "create"),
		rule("authorization.k8s.io", "subjectaccessreviews", "create"),
	}
}

// PolicyRules is what the scheduler needs to apply its admission policies itself.
// Without them somebody who may must apply them.
func PolicyRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("admissionregistration.k8s.io", "validatingadmissionpolicies validatingadmissionpolicybindings", "get", "create", "update"),
	}
}

// LeaseRules is what it needs in the namespace of its lease. The API knows no
// name when something is created, so that create cannot be given for one alone.
func LeaseRules(name string) []rbacv1.PolicyRule {
	own := rule("coordination.k8s.io", "leases", "get", "update")
	own.ResourceNames = []string{name}
	return []rbacv1.PolicyRule{rule("coordination.k8s.io", "leases", "create"), own}
}

// lacks asks the API server which of rules this identity has not, in a namespace
// or, with "", in the whole cluster. What it gives are sentences such as
// "list nodes".
func lacks(ctx context.Context, client kubernetes.Interface, namespace string, rules []rbacv1.PolicyRule) ([]string, error) {
	var asked []authorizationv1.ResourceAttributes
	for _, r := range rules {
		for _, resource := range r.Resources {
			name, sub, _ := strings.Cut(resource, "/")
			for _, verb := range r.Verbs {
				a := authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: r.APIGroups[0], Version: "*", Resource: name, Subresource: sub}
				if len(r.ResourceNames) > 0 {
					a.Name = r.ResourceNames[0]
				}
				asked = append(asked, a)
			}
		}
	}
	missing := make([]string, len(asked))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range asked {
		group.Go(func() error {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &asked[i]}}
			got, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err == nil && !got.Status.Allowed {
				missing[i] = sentence(&asked[i])
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("ask what this identity may: %w", err)
	}
	return slices.DeleteFunc(missing, func(s string) bool { return s == "" }), nil
}

// sentence says what was asked for, as kubectl auth can-i takes it.
func sentence(a *authorizationv1.ResourceAttributes) string {
	s := a.Verb + " " + a.Resource
	if a.Group != "" {
		s += "." + a.Group
	}
	if a.Subresource != "" {
		s += "/" + a.Subresource
	}
	if a.Name != "" {
		s += " " + a.Name
	}
	if a.Namespace != "" {
		s += " in " + a.Namespace
	}
	return s
}

// checkRights refuses to start without a right that the scheduler needs: its
// watches would wait for ever, and say so only in the log.
func checkRights(ctx context.Context, client kubernetes.Interface, user string, lease *Lease) error {
	missing, err := lacks(ctx, client, "", Rules())
	if err != nil {
		return err
	}
	if lease != nil {
		more, err := lacks(ctx, client, lease.Namespace, LeaseRules(lease.Name))
		if err != nil {
			return err
		}
		missing = append(missing, more...)
	}
	if len(missing) == 0 {
		return nil
	}
	return errors.New(user + " may not " + strings.Join(missing, ", ") + "; give it the roles of deploy/scheduler.yaml")
}
