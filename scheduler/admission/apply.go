package admission

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/api"
)

// Names are those of all validating policies of this package, and of their bindings.
func Names() []string {
	return []string{DevicesName, RequestsName, WarningsName, WorkloadsName, TrapsName, UsersName, LeaderName}
}

// Policies are all that explain requests, for a cluster whose largest GPU has so
// much memory; 0 is unknown.
func Policies(largestMiB int64) []Policy {
	return []Policy{Requests(largestMiB), Warnings(), Workloads(), Traps()}
}

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
