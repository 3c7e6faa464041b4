package admission

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

// DevicesName is the name of the policy of Devices and of its binding.
const DevicesName = "berth-devices"

// DevicesMessage is what a write gets that Devices refuses.
const DevicesMessage = "the annotation " + api.AnnotationDevices +
	" says which GPUs a pod holds, and only Berth's scheduler writes it, when it binds the pod: leave it as it is, and out of what you create"

// Devices makes the admission policy that keeps the annotation berth.dev/devices
// to the scheduler, and its binding. Nobody else, administrators included, can
// set, change or remove it: not when a Pod is created, not by an update of the
// Pod or of one of its subresources, and not with a Binding of their own. user is
// the scheduler's name to the API server.
func Devices(user string) (*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding) {
	devices := func(object string) string {
		return fmt.Sprintf("(%[1]s == null || !has(%[1]s.metadata.annotations) || !('%[2]s' in %[1]s.metadata.annotations) ? '' : %[1]s.metadata.annotations['%[2]s'])",
			object, api.AnnotationDevices)
	}
	policy := newPolicy(DevicesName, admissionv1.Fail,
		rule([]admissionv1.OperationType{admissionv1.Create, admissionv1.Update}, "pods", "pods/status", "pods/ephemeralcontainers", "pods/resize"),
		rule([]admissionv1.OperationType{admissionv1.Create}, "pods/binding", "bindings"))
	// The test is a condition on the match: a write that does not match is done with
	// after one look at the object, where a validation would take three.
	policy.Spec.MatchConditions = []admissionv1.MatchCondition{{
		Name: "changes-devices",
		Expression: fmt.Sprintf("%s != %s && !(request.kind.kind == 'Binding' && request.userInfo.username == '%s')",
			devices("oldObject"), devices("object"), user),
	}}
	policy.Spec.Validations = []admissionv1.Validation{{
		Expression: "false",
		Message:    DevicesMessage,
		Reason:     new(metav1.StatusReasonForbidden),
	}}
	return policy, newBinding(DevicesName, admissionv1.Deny)
}

// newPolicy makes a policy of rules without expressions.
func newPolicy(name string, onError admissionv1.FailurePolicyType, rules ...admissionv1.NamedRuleWithOperations) *admissionv1.ValidatingAdmissionPolicy {
	return &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &onError, MatchConstraints: &admissionv1.MatchResources{ResourceRules: rules},
		},
	}
}

// rule matches operations on resources of the core group.
func rule(operations []admissionv1.OperationType, resources ...string) admissionv1.NamedRuleWithOperations {
	return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: operations,
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: resources},
	}}
}

// newBinding makes the binding of the policy of the same name.
func newBinding(name string, action admissionv1.ValidationAction) *admissionv1.ValidatingAdmissionPolicyBinding {
	return &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{action},
		},
	}
}
