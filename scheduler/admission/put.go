package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/api"
)

// ErrOtherScheduler says that the policies name another scheduler; see Apply.
var ErrOtherScheduler = errors.New("another scheduler commits devices in this cluster")

// applyBinding creates a policy's binding. One that is there already stays: the
// cluster's administrator may have narrowed it.
func applyBinding(ctx context.Context, client kubernetes.Interface, binding *admissionv1.ValidatingAdmissionPolicyBinding) error {
	_, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
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

// writer is a client of one resource, as far as put needs it.
type writer[T any] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, o metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, o metav1.UpdateOptions) (T, error)
}

// put creates or updates a policy, and creates its binding: one that is there already stays, as
// the cluster's administrator may have narrowed it.
func put[P, B metav1.Object](ctx context.Context, policies writer[P], bindings writer[B], policy P, binding B) error {
	_, err := policies.Create(ctx, policy, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		was, readErr := policies.Get(ctx, policy.GetName(), metav1.GetOptions{})
		if readErr != nil {
			return readErr
		}
		policy.SetResourceVersion(was.GetResourceVersion())
		if _, err = policies.Update(ctx, policy, metav1.UpdateOptions{}); apierrors.IsConflict(err) {
			err = nil // another process of this scheduler has just done the same
		}
	}
	if err != nil {
		return err
	}
	if _, err := bindings.Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// convert writes an object as one of another version with the same fields.
func convert(from, to any) error {
	raw, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, to)
}
