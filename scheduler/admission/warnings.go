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

// note is the expression for an annotation, which is there.
func note(name string) string { return "variables.notes['" + name + "']" }

// duration is the expression for a text that begins as a pattern says and goes on with a duration of more than 0, as
// time.ParseDuration reads it.
func duration(begin, text string) string {
	return fmt.Sprintf("%[2]s.matches('^%[1]s[+]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(h|m|s|ms|us|µs|μs|ns))+$') && %[2]s.matches('[1-9]')", begin, text)
}

// Warnings makes the admission policy that warns of requests which work, and
// perhaps not as they read: the same as request.Warnings.
func Warnings() Policy {
	policy := newPolicy(WarningsName, admissionv1.Ignore, rule([]admissionv1.OperationType{admissionv1.Create}, "pods"))
	policy.Spec.Variables = requestVariables()
	alone := func(cores string, memory ...string) string {
		return fmt.Sprintf("'%s' in a && !a.exists(k, k in %s)", cores, list(memory))
	}
	saves, runs := note(api.AnnotationCheckpoint), note(api.AnnotationMaxRunTime)
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
			Expression: fmt.Sprintf("!('%[1]s' in variables.notes) || %[2]s in ['', 'on-signal', 'none'] || %[2]s.matches('%[3]s') && !%[2]s.endsWith('137') || %[4]s",
				api.AnnotationCheckpoint, saves, exitCode, duration("(periodic:)?", saves)),
			Message: request.WarningSaves,
		},
		{
			Expression: fmt.Sprintf("!('%s' in variables.notes) || %s == '' || %s", api.AnnotationMaxRunTime, runs, duration("", runs)),
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
