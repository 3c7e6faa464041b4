package admission

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
)

// Names are those of all validating policies of this package, and of their bindings.
func Names() []string {
	return []string{DevicesName, RequestsName, WarningsName, WorkloadsName, TrapsName, UsersName}
}

// Policies are all that explain requests, for a cluster whose largest GPU has so
// much memory; 0 is unknown.
func Policies(largestMiB int64) []Policy {
	return []Policy{Requests(largestMiB), Warnings(), Workloads(), Traps()}
}

// ErrOtherScheduler says that the policies name another scheduler; see Apply.
var ErrOtherScheduler = errors.New("another scheduler commits devices in this cluster")

// Apply creates or updates the admission policy that lets only the scheduler write
// committed devices; user is the scheduler's name to the API server. If the policy
// names another scheduler, Apply returns ErrOtherScheduler and changes nothing,
// unless take is set: two schedulers would allocate the same devices.
func Apply(ctx context.Context, client kubernetes.Interface, user string, take bool) error {
	if strings.ContainsAny(user, "'\\") {
		return fmt.Errorf("guard the devices of pods: user name %q has a quote or a backslash in it: run the scheduler as a ServiceAccount", user)
	}
	policy, binding := Devices(user)
	if err := applyPolicy(ctx, client, policy, user, take); err != nil {
		return fmt.Errorf("guard the devices of pods: %w", err)
	}
	if err := applyBinding(ctx, client, binding); err != nil {
		return fmt.Errorf("guard the devices of pods: %w", err)
	}
	return nil
}

// applyBinding creates a policy's binding. One that is there already stays: the
// cluster's administrator may have narrowed it.
func applyBinding(ctx context.Context, client kubernetes.Interface, binding *admissionv1.ValidatingAdmissionPolicyBinding) error {
	_, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// ApplyRequests applies the admission policies that explain requests for GPUs that
// no node can meet, in a cluster whose largest GPU has so much memory.
func ApplyRequests(ctx context.Context, client kubernetes.Interface, largestMiB int64) error {
	for _, p := range Policies(largestMiB) {
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

// applyPolicy creates or updates one policy, with the annotation that names its
// scheduler, if it has one.
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
		// Another process of this scheduler created it first.
		if was, err = policies.Get(ctx, policy.Name, metav1.GetOptions{}); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	if other := was.Annotations[api.AnnotationScheduler]; other != "" && other != user && !take {
		return fmt.Errorf("%w: policy %s lets %q alone do it, and this one is %q; stop that one and start this one with --take-over, or run it as that user",
			ErrOtherScheduler, policy.Name, other, user)
	}
	policy.ResourceVersion = was.ResourceVersion
	_, err = policies.Update(ctx, policy, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		return nil // another process of this scheduler has just done the same
	}
	return err
}

// ApplyUnbound is Apply for an API server that lets only the scheduler write devices
// by itself: the policy names the scheduler, which other schedulers read, and no
// policy is bound, because each slows the API server down. Apply binds them again.
func ApplyUnbound(ctx context.Context, client kubernetes.Interface, user string) error {
	policy, _ := Devices(user)
	if err := applyPolicy(ctx, client, policy, user, true); err != nil {
		return fmt.Errorf("note who guards the devices of pods: %w", err)
	}
	bindings := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	for _, name := range Names() {
		if err := bindings.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("unbind admission policy %s: %w", name, err)
		}
	}
	return unbindStamps(ctx, client)
}

// Owner returns the name of the scheduler that Apply or ApplyUnbound was last called
// for, or "".
func Owner(ctx context.Context, client kubernetes.Interface) (string, error) {
	p, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, DevicesName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read admission policy %s: %w", DevicesName, err)
	}
	return p.Annotations[api.AnnotationScheduler], nil
}
