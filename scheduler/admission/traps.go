package admission

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"berth.dev/berth/api/kserve"
	"berth.dev/berth/kube/explain"
)

// TrapsName is the name of the policy of Traps and of its binding.
const TrapsName = "berth-trap-warnings"

// Traps makes the admission policy that warns of objects which Kubernetes accepts, and which do something other than they read: the same as
// explain.Trap.
func Traps() Policy {
	var rules []admissionv1.NamedRuleWithOperations
	for _, r := range []admissionv1.Rule{
		{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"resourcequotas", "limitranges"}},
		{APIGroups: []string{"scheduling.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"priorityclasses"}},
		{APIGroups: []string{"autoscaling"}, APIVersions: []string{"*"}, Resources: []string{"horizontalpodautoscalers"}},
	} {
		rules = append(rules, admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}, Rule: r,
		}})
	}
	policy := newPolicy(TrapsName, admissionv1.Ignore, rules...)
	some := func(list string) string {
		return isGPU("k") + " && quantity(string(l." + list + "[k])).isGreaterThan(quantity('0'))"
	}
	policy.Spec.Validations = []admissionv1.Validation{
		{
			Expression: "request.kind.kind != 'ResourceQuota' || !has(object.spec.hard) || !object.spec.hard.exists(k, " + isGPU("k") + " || k.startsWith('limits.') && " + isGPU("k.substring(7)") + ")",
			Message:    explain.WarningQuotaLine,
		},
		{
			Expression: "request.kind.kind != 'LimitRange' || !object.spec.limits.exists(l, l.type == 'Container' && (has(l.default) && l.default.exists(k, " + some("default") +
				") || has(l.max) && l.max.exists(k, " + some("max") + " && !(has(l.default) && k in l.default))))",
			Message: explain.WarningLimitRange,
		},
		{
			Expression: "request.kind.kind != 'PriorityClass' || !has(object.globalDefault) || !object.globalDefault || object.value == 0",
			Message:    explain.WarningDefault,
		},
		{
			Expression: "request.kind.kind != 'HorizontalPodAutoscaler' || object.spec.scaleTargetRef.kind != '" + kserve.Kind + "'",
			Message:    explain.WarningScale,
		},
	}
	return Policy{policy, newBinding(TrapsName, admissionv1.Warn)}
}
