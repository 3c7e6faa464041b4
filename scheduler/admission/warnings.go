package admission

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/request"
)

// WarningsName is the name of the policy of Warnings and of its binding.
const WarningsName = "berth-request-warnings"

// Warnings makes the admission policy that warns of requests which work, and
// perhaps not as they read: the same as request.Warnings.
func Warnings() Policy {
	policy := newPolicy(WarningsName, admissionv1.Ignore, rule([]admissionv1.OperationType{admissionv1.Create}, "pods"))
	policy.Spec.Variables = requestVariables()
	alone := func(cores string, memory ...string) string {
		return fmt.Sprintf("'%s' in a && !a.exists(k, k in %s)", cores, list(memory))
	}
	policy.Spec.Validations = []admissionv1.Validation{
		{
			Expression: "!variables.asked.exists(a, " + alone(api.ResourceHAMiCores, api.ResourceHAMiMemory, api.ResourceHAMiPercentage) + " || " +
				alone(api.ResourceVolcanoCores, api.ResourceVolcanoMemory, api.ResourceVolcanoPercentage) + ")",
			Message: request.WarningCores,
		},
		{
			Expression: "variables.fraction == '' || !variables.fraction.matches('^[0-9]*[.][0-9]{3}[0-9]*[1-9]0*$')",
			Message:    request.WarningFine,
		},
		{
			Expression: "!('" + api.AnnotationCheckpoint + "' in variables.notes) || variables.notes['" + api.AnnotationCheckpoint + "'] in ['', 'on-signal', 'none'] || " +
				"variables.notes['" + api.AnnotationCheckpoint + "'].matches('^(periodic:)?([0-9]+([.][0-9]+)?(h|m|s))+$') && variables.notes['" + api.AnnotationCheckpoint + "'].matches('[1-9]')",
			Message: request.WarningSaves,
		},
		{
			Expression: "variables.kai || variables.asked.exists(a, a.size() > 0) || !object.spec.containers.exists(c, has(c.env) && c.env.exists(e, e.name == '" +
				request.VisibleVariable + "' && has(e.value) && !(e.value in ['', 'none', 'void'])))",
			Message: request.WarningVisible,
		},
	}
	return Policy{policy, newBinding(WarningsName, admissionv1.Warn)}
}
