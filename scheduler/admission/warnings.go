package admission

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/request"
)

// WarningsName is the name of the policy of Warnings and of its binding.
const WarningsName = "berth-request-warnings"

// exitCode is what core/checkpoint takes for an exit code that proves that work was saved: 1 to 255, but not 137, that of a process that was killed.
const exitCode = "^on-signal:0*([1-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])$"

// duration is the expression for an annotation that begins as a pattern says and goes on with a duration of more than 0, as
// time.ParseDuration reads it.
func duration(begin, note string) string {
	return fmt.Sprintf("variables.notes['%[2]s'].matches('^%[1]s[+]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(h|m|s|ms|us|µs|μs|ns))+$') && variables.notes['%[2]s'].matches('[1-9]')", begin, note)
}

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
				"variables.notes['" + api.AnnotationCheckpoint + "'].matches('" + exitCode + "') && !variables.notes['" + api.AnnotationCheckpoint + "'].endsWith('137') || " + duration("(periodic:)?", api.AnnotationCheckpoint),
			Message: request.WarningSaves,
		},
		{
			Expression: "!('" + api.AnnotationMaxRunTime + "' in variables.notes) || variables.notes['" + api.AnnotationMaxRunTime + "'] == '' || " + duration("", api.AnnotationMaxRunTime),
			Message:    request.WarningRunTime,
		},
		{
			Expression: "variables.kai || variables.asked.exists(a, a.size() > 0) || !object.spec.containers.exists(c, has(c.env) && c.env.exists(e, e.name == '" +
				request.VisibleVariable + "' && has(e.value) && !(e.value in ['', 'none', 'void'])))",
			Message: request.WarningVisible,
		},
	}
	return Policy{policy, newBinding(WarningsName, admissionv1.Warn)}
}
