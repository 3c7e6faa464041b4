package server

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/api"
	"berth.dev/berth/scheduler/admission"
)

// NoteGuard is Guard where the API server itself keeps devices to the scheduler:
// the policy says for whom it is, so that other schedulers learn of it, and no
// policy is bound, as each costs the API server much. Guard binds them again.
func NoteGuard(ctx context.Context, client kubernetes.Interface, user string) error {
	policy, _ := admission.Devices(user)
	if err := applyPolicy(ctx, client, policy, user, true); err != nil {
		return fmt.Errorf("note who guards the devices of pods: %w", err)
	}
	bindings := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	for _, name := range admission.Names() {
		if err := bindings.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("unbind admission policy %s: %w", name, err)
		}
	}
	return nil
}

// GuardedFor is the name of the scheduler that Guard or NoteGuard was last called
// for; "" is none.
func GuardedFor(ctx context.Context, client kubernetes.Interface) (string, error) {
	p, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, admission.DevicesName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read admission policy %s: %w", admission.DevicesName, err)
	}
	return p.Annotations[api.AnnotationScheduler], nil
}
