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
	"berth.dev/berth/scheduler/admission"
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
	policy, binding := admission.Devices(user)
	if err := applyPolicy(ctx, client, policy, user, take); err != nil {
		return fmt.Errorf("guard the devices of pods: %w", err)
	}
	if err := applyBinding(ctx, client, binding); err != nil {
		return fmt.Errorf("guard the devices of pods: %w", err)
	}
	return nil
}

// applyBinding creates a policy's binding. One that is there already stays: it
// may have been narrowed by who runs the cluster.
func applyBinding(ctx context.Context, client kubernetes.Interface, binding *admissionv1.ValidatingAdmissionPolicyBinding) error {
	_, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// explainRequests applies the admission policies that explain requests for GPUs
// which nothing can meet, for a cluster whose largest GPU has so much memory.
func explainRequests(ctx context.Context, client kubernetes.Interface, largestMiB int64) error {
	for _, p := range admission.Policies(largestMiB) {
		err := applyPolicy(ctx, client, p.Policy, "", true)
		if err == nil {
			err = applyBinding(ctx, client, p.Binding)
		}
		if err != nil {
			return fmt.Errorf("apply admission policy %s: %w", p.Policy.Name, err)
		}
	}
	return nil
}

// applyPolicy creates or updates one policy, with the annotation that says for
// whom it is, if it is for somebody.
func applyPolicy(ctx context.Context, client kubernetes.Interface, policy *admissionv1.ValidatingAdmissionPolicy, user string, take bool) error {
	if user != "" {
		policy.Annotations = map[string]string{api.AnnotationScheduler: user}
	}
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
