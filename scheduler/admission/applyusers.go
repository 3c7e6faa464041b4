package admission

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/core/user"
)

// ApplyUsers applies the admission policies that write on objects which user they were created
// for, and keep that. stamps is false where the API server serves no MutatingAdmissionPolicies:
// it is then only refused to name another user, and users are known where objects say their own.
func ApplyUsers(ctx context.Context, client kubernetes.Interface, p *user.Policy) (stamps bool, err error) {
	keep := KeepUsers(p)
	if err := applyPolicy(ctx, client, keep.Policy, "", true); err != nil {
		return false, fmt.Errorf("apply admission policy %s: %w", UsersName, err)
	}
	if err := applyBinding(ctx, client, keep.Binding); err != nil {
		return false, fmt.Errorf("apply admission policy %s: %w", UsersName, err)
	}
	version, err := mutatingVersion(client.Discovery())
	if err != nil {
		return false, fmt.Errorf("ask whether mutating admission policies are served: %w", err)
	}
	stamp := StampUsers(p)
	switch version {
	case admissionv1.SchemeGroupVersion.Version:
		in := client.AdmissionregistrationV1()
		err = put(ctx, in.MutatingAdmissionPolicies(), in.MutatingAdmissionPolicyBindings(), stamp.Policy, stamp.Binding)
	case admissionv1beta1.SchemeGroupVersion.Version:
		policy, binding := &admissionv1beta1.MutatingAdmissionPolicy{}, &admissionv1beta1.MutatingAdmissionPolicyBinding{}
		if err := convert(stamp.Policy, policy); err != nil {
			return false, err
		}
		if err := convert(stamp.Binding, binding); err != nil {
			return false, err
		}
		in := client.AdmissionregistrationV1beta1()
		err = put(ctx, in.MutatingAdmissionPolicies(), in.MutatingAdmissionPolicyBindings(), policy, binding)
	default:
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("apply mutating admission policy %s: %w", UsersName, err)
	}
	return true, nil
}

// unbindStamps removes the binding of the mutating policy.
func unbindStamps(ctx context.Context, client kubernetes.Interface) error {
	version, err := mutatingVersion(client.Discovery())
	if err != nil {
		return fmt.Errorf("ask whether mutating admission policies are served: %w", err)
	}
	switch version {
	case admissionv1.SchemeGroupVersion.Version:
		err = client.AdmissionregistrationV1().MutatingAdmissionPolicyBindings().Delete(ctx, UsersName, metav1.DeleteOptions{})
	case admissionv1beta1.SchemeGroupVersion.Version:
		err = client.AdmissionregistrationV1beta1().MutatingAdmissionPolicyBindings().Delete(ctx, UsersName, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("unbind mutating admission policy %s: %w", UsersName, err)
	}
	return nil
}

// mutatingVersion is the version in which MutatingAdmissionPolicies are served, the newest if
// there are several; "" is none. Kubernetes has them from 1.36 on, and before as v1beta1 if that
// is switched on.
func mutatingVersion(d discovery.DiscoveryInterface) (string, error) {
	for _, at := range []string{admissionv1.SchemeGroupVersion.String(), admissionv1beta1.SchemeGroupVersion.String()} {
		list, err := d.ServerResourcesForGroupVersion(at)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "mutatingadmissionpolicies" }) {
			return at[len(admissionv1.GroupName)+1:], nil
		}
	}
	return "", nil
}
