// Package rights asks an API server who this process is to it and what it may do,
// so that a process without a right that it needs says so at its start. It grants
// nothing.
package rights

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Read is the verbs of those who only look.
var Read = []string{"get", "list", "watch"}

// Rule is one rule of a role. resources are separated by spaces.
func Rule(group, resources string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Fields(resources), Verbs: verbs}
}

// Named is Rule for objects of some names alone. The API knows no name when
// something is created, listed or watched, so it means nothing for these.
func Named(rule rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
	rule.ResourceNames = names
	return rule
}

// Missing asks the API server which of rules this identity has not, in a namespace
// or, with "", in the whole cluster. What it gives are sentences such as
// "list nodes", in the order of the rules.
func Missing(ctx context.Context, client kubernetes.Interface, namespace string, rules []rbacv1.PolicyRule) ([]string, error) {
	asked := questions(namespace, rules)
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

// Need is rules in a namespace or, with "", in the whole cluster.
type Need struct {
	Namespace string
	Rules     []rbacv1.PolicyRule
}

// Require returns an error that names the rights of needs that user, the identity of
// this process, does not have. roles is the file whose roles grant them.
func Require(ctx context.Context, client kubernetes.Interface, user, roles string, needs ...Need) error {
	var missing []string
	for _, n := range needs {
		more, err := Missing(ctx, client, n.Namespace, n.Rules)
		if err != nil {
			return err
		}
		missing = append(missing, more...)
	}
	if len(missing) == 0 {
		return nil
	}
	return errors.New(user + " cannot " + strings.Join(missing, ", ") + "; grant it the roles in " + roles)
}

// questions are what rules allow, one by one.
func questions(namespace string, rules []rbacv1.PolicyRule) []authorizationv1.ResourceAttributes {
	var asked []authorizationv1.ResourceAttributes
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, resource := range r.Resources {
			kind, sub, _ := strings.Cut(resource, "/")
			for _, verb := range r.Verbs {
				for _, name := range names {
					asked = append(asked, authorizationv1.ResourceAttributes{
						Namespace: namespace, Verb: verb, Group: r.APIGroups[0], Version: "*", Resource: kind, Subresource: sub, Name: name,
					})
				}
			}
		}
	}
	return asked
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

// Check returns a client of the API server of cfg, and the name that it knows this process by, if this has all of needs. The error names those
// that are missing, and the manifest that grants them. Without them watches would wait forever and report it only in the log.
func Check(ctx context.Context, cfg *rest.Config, manifest string, needs ...Need) (client kubernetes.Interface, user string, err error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // API servers defend themselves by priority and fairness
	if client, err = kubernetes.NewForConfig(cfg); err != nil {
		return nil, "", fmt.Errorf("read kubeconfig: %w", err)
	}
	if user, err = WhoAmI(ctx, client); err != nil {
		return nil, "", fmt.Errorf("read the user name of this process from %s: %w", cfg.Host, err)
	}
	return client, user, Require(ctx, client, user, manifest, needs...)
}

// patience is how long the API server may take to answer at the start.
const patience = 15 * time.Second

// WhoAmI returns the name that the API server knows this process by. A server that
// does not answer at once may be starting too, and is asked again for 15 seconds.
func WhoAmI(ctx context.Context, client kubernetes.Interface) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		got, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		var status apierrors.APIStatus
		switch {
		case err == nil:
			return got.Status.UserInfo.Username, nil
		case errors.As(err, &status) && !apierrors.IsServiceUnavailable(err) && !apierrors.IsTooManyRequests(err) && !apierrors.IsInternalError(err):
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(500 * time.Millisecond):
		}
	}
}
