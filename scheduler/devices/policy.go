package devices

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

// PolicyName is the name of the admission policy and of its binding.
const PolicyName = "berth-devices"

// Policy makes the admission policy that keeps the annotation berth.dev/devices
// to the scheduler, and its binding. Nobody else, administrators included, can
// set, change or remove it: not when a Pod is created, not by an update of the
// Pod or of one of its subresources, and not with a Binding of their own. user is
// the scheduler's name to the API server.
func Policy(user string) (*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding) {
	rule := func(operations []admissionv1.OperationType, resources ...string) admissionv1.NamedRuleWithOperations {
		return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: operations,
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: resources},
		}}
	}
	devices := func(object string) string {
		return fmt.Sprintf("(%[1]s == null || !has(%[1]s.metadata.annotations) || !('%[2]s' in %[1]s.metadata.annotations) ? '' : %[1]s.metadata.annotations['%[2]s'])",
			object, api.AnnotationDevices)
	}
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: PolicyName},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{
				rule([]admissionv1.OperationType{admissionv1.Create, admissionv1.Update}, "pods", "pods/status", "pods/ephemeralcontainers", "pods/resize"),
				rule([]admissionv1.OperationType{admissionv1.Create}, "pods/binding", "bindings"),
			}},
			Variables: []admissionv1.Variable{
				{Name: "before", Expression: devices("oldObject")},
				{Name: "after", Expression: devices("object")},
				{Name: "binds", Expression: fmt.Sprintf("request.kind.kind == 'Binding' && request.userInfo.username == '%s'", user)},
			},
			Validations: []admissionv1.Validation{{
				Expression: "variables.before == variables.after || variables.binds",
				Message: fmt.Sprintf("the annotation %s says which GPUs a pod holds, and only Berth's scheduler writes it, when it binds the pod: leave it as it is, and out of what you create",
					api.AnnotationDevices),
				Reason: new(metav1.StatusReasonForbidden),
			}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: PolicyName},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: PolicyName, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	return policy, binding
}
