package admission_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"berth.dev/berth/api"
	"berth.dev/berth/scheduler/admission"
)

// owner is whom the policy names, or "".
func owner(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	p, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), admission.DevicesName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if on := p.Spec.MatchConditions[0].Expression; !strings.Contains(on, "'"+p.Annotations[api.AnnotationScheduler]+"'") {
		t.Errorf("the policy is said to be for %s, and says %s", p.Annotations[api.AnnotationScheduler], on)
	}
	return p.Annotations[api.AnnotationScheduler]
}

func TestApplyKeepsDevicesToOneScheduler(t *testing.T) {
	client := fake.NewClientset()
	steps := []struct {
		name, user string
		take       bool
		refused    bool
		owner      string
	}{
		{"the first is named", "a", false, false, "a"},
		{"started again it is named again", "a", false, false, "a"},
		{"another is refused", "b", false, true, "a"},
		{"unless it is told to take over", "b", true, false, "b"},
		{"then the first is refused", "a", false, true, "b"},
	}
	for _, step := range steps {
		err := admission.Apply(t.Context(), client, step.user, step.take)
		if errors.Is(err, admission.ErrOtherScheduler) != step.refused || err != nil && !step.refused {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := owner(t, client); got != step.owner {
			t.Fatalf("%s: the policy names %q, want %q", step.name, got, step.owner)
		}
	}
	if _, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(t.Context(), admission.DevicesName, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestApplyTakesAPolicyWithoutAName(t *testing.T) {
	policy, binding := admission.Devices("before")
	client := fake.NewClientset(policy, binding)
	if err := admission.Apply(t.Context(), client, "now", false); err != nil {
		t.Fatal(err)
	}
	if got := owner(t, client); got != "now" {
		t.Errorf("the policy names %q, want now", got)
	}
}

func TestApplyRefusesNamesThatWouldEndTheExpression(t *testing.T) {
	client := fake.NewClientset()
	if err := admission.Apply(t.Context(), client, "x' || true || '", false); err == nil {
		t.Error("a name with a quote was put into the policy")
	}
	if n := len(client.Actions()); n != 0 {
		t.Errorf("%d calls were made, want none", n)
	}
}

func TestRequestsAreExplainedForTheLargestGPU(t *testing.T) {
	client := fake.NewClientset()
	for _, mib := range []int64{0, 40960, 81920, 81920} {
		if err := admission.ApplyRequests(t.Context(), client, mib); err != nil {
			t.Fatal(err)
		}
		for _, want := range admission.Policies(mib) {
			got, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), want.Policy.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Policy.Spec, got.Spec); diff != "" {
				t.Errorf("%d MiB: the policy is not that of the largest GPU (-want +got):\n%s", mib, diff)
			}
			if _, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(t.Context(), want.Binding.Name, metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
		}
	}
}
