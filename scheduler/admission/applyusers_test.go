package admission_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	users "berth.dev/berth/core/user"
	"berth.dev/berth/scheduler/admission"
)

// serving is a client of an API server that serves MutatingAdmissionPolicies in a version, or,
// with "", not at all.
func serving(version string) kubernetes.Interface {
	client := fake.NewClientset()
	lists := []*metav1.APIResourceList{{GroupVersion: "admissionregistration.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "validatingadmissionpolicies"}}}}
	if version != "" {
		lists = append(lists, &metav1.APIResourceList{GroupVersion: "admissionregistration.k8s.io/" + version, APIResources: []metav1.APIResource{{Name: "mutatingadmissionpolicies"}}})
	}
	if version == "v1" {
		lists[0].APIResources, lists = append(lists[0].APIResources, lists[1].APIResources...), lists[:1]
	}
	client.Discovery().(*fakediscovery.FakeDiscovery).Resources = lists
	return client
}

func TestPoliciesOfUsersAreApplied(t *testing.T) {
	for _, version := range []string{"", "v1beta1", "v1"} {
		t.Run("mutating policies in version "+version, func(t *testing.T) {
			client := serving(version)
			first, second := users.NewPolicy(nil, nil), users.NewPolicy([]string{"hub"}, nil)
			for _, p := range []*users.Policy{first, second} {
				stamps, err := admission.ApplyUsers(t.Context(), client, p)
				if err != nil || stamps != (version != "") {
					t.Fatalf("ApplyUsers = %v, %v", stamps, err)
				}
			}
			in := client.AdmissionregistrationV1()
			kept, err := in.ValidatingAdmissionPolicies().Get(t.Context(), admission.UsersName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(admission.KeepUsers(second).Policy.Spec, kept.Spec); diff != "" {
				t.Errorf("the policy is not that of the last call (-want +got):\n%s", diff)
			}
			if _, err := in.ValidatingAdmissionPolicyBindings().Get(t.Context(), admission.UsersName, metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
			want := admission.StampUsers(second).Policy.Spec.Variables
			var got []admissionv1.Variable
			var bound func() bool
			switch version {
			case "v1":
				p, err := in.MutatingAdmissionPolicies().Get(t.Context(), admission.UsersName, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				got = p.Spec.Variables
				bound = func() bool {
					_, err := in.MutatingAdmissionPolicyBindings().Get(t.Context(), admission.UsersName, metav1.GetOptions{})
					return !apierrors.IsNotFound(err)
				}
			case "v1beta1":
				beta := client.AdmissionregistrationV1beta1()
				p, err := beta.MutatingAdmissionPolicies().Get(t.Context(), admission.UsersName, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range p.Spec.Variables {
					got = append(got, admissionv1.Variable{Name: v.Name, Expression: v.Expression})
				}
				bound = func() bool {
					_, err := beta.MutatingAdmissionPolicyBindings().Get(t.Context(), admission.UsersName, metav1.GetOptions{})
					return !apierrors.IsNotFound(err)
				}
			default:
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the mutating policy (-want +got):\n%s", diff)
			}
			if !bound() {
				t.Error("the mutating policy is not bound")
			}
			if err := admission.ApplyUnbound(t.Context(), client, "scheduler"); err != nil || bound() {
				t.Errorf("ApplyUnbound: %v, and it is bound: %v", err, bound())
			}
		})
	}
}
