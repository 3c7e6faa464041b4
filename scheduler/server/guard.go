package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/api"
	"berth.dev/berth/scheduler/devices"
)

// errOtherScheduler is what Guard says where the policies name somebody else.
var errOtherScheduler = errors.New("another scheduler commits devices in this cluster")

// Guard applies the admission policies that keep committed devices to the
// scheduler, whose name to the API server is user, or brings them up to date.
// Where the policies name another scheduler it changes nothing unless take is
// set: two would give the same devices.
func Guard(ctx context.Context, client kubernetes.Interface, user string, take bool) error {
	if strings.ContainsAny(user, "'\\") {
		return fmt.Errorf("guard the devices of pods: user name %q has a quote or a backslash in it: run the scheduler as a ServiceAccount", user)
	}
	policy, binding := devices.Policy(user)
	if err := applyPolicy(ctx, client, policy, user, take); err != nil {
		return fmt.Errorf("guard the devices of pods: %w", err)
	}
	bindings := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	_, err := bindings.Create(ctx, binding, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("guard the devices of pods: %w", err)
	}
	return nil
}

// applyPolicy creates or updates one policy, with the annotation that says for
// whom it is.
func applyPolicy(ctx context.Context, client kubernetes.Interface, policy *admissionv1.ValidatingAdmissionPolicy, user string, take bool) error {
	policy.Annotations = map[string]string{api.AnnotationScheduler: user}
	policies := client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	was, err := policies.Get(ctx, policy.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = policies.Create(ctx, policy, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		// Another process of this scheduler was quicker.
		if was, err = policies.Get(ctx, policy.Name, metav1.GetOptions{}); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	if other := was.Annotations[api.AnnotationScheduler]; other != "" && other != user && !take {
		return fmt.Errorf("%w: policy %s lets %q alone do it, and this one is %q; stop that one and start this one with --take-over, or run it as that user",
			errOtherScheduler, policy.Name, other, user)
	}
	policy.ResourceVersion = was.ResourceVersion
	_, err = policies.Update(ctx, policy, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		return nil // another process of this scheduler has just done the same
	}
	return err
}
