package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"berth.dev/berth/kube/request"
)

// WorkloadsName is the name of the policy of Workloads and of its binding.
const WorkloadsName = "berth-workload-warnings"

// WorkloadResources are resources by their group whose objects make pods that the API server sees only when a controller
// creates them. It judges the pods of Deployments, Jobs, and other kinds of Kubernetes with those.
var WorkloadResources = map[string][]string{
	"kubeflow.org":         {"notebooks", "tfjobs", "pytorchjobs"},
	"trainer.kubeflow.org": {"trainjobs"},
	"serving.kserve.io":    {"inferenceservices"},
}

// Workloads makes the admission policy that warns of objects whose pods Kubernetes refuses when a controller creates
// them: request.WarningUnequal of the same as request.UnequalIn, of WorkloadResources. An update
// of an object that was so before is not warned of again.
func Workloads() Policy {
	var rules []admissionv1.NamedRuleWithOperations
	for _, group := range slices.Sorted(maps.Keys(WorkloadResources)) {
		rules = append(rules, admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: WorkloadResources[group]},
		}})
	}
	policy := newPolicy(WorkloadsName, admissionv1.Ignore, rules...)
	policy.Spec.Validations = []admissionv1.Validation{{
		Expression: fmt.Sprintf("!(%s) || oldObject != null && (%s)", unequalIn("object.spec"), unequalIn("oldObject.spec")),
		Message:    request.WarningUnequal,
	}}
	return Policy{policy, newBinding(WorkloadsName, admissionv1.Warn)}
}

// unequalIn is the expression for requests of GPUs that are not limits in the spec of an object of WorkloadResources.
func unequalIn(spec string) string {
	template := fmt.Sprintf("has(%[1]s.template) && has(%[1]s.template.spec) && %[2]s", spec, unequalPods("["+spec+".template.spec]"))
	replicas := func(field string) string {
		at := spec + "." + field
		return fmt.Sprintf("has(%[1]s) && %[2]s", at, unequalPods(fmt.Sprintf("%[1]s.map(k, %[1]s[k]).filter(r, has(r.template) && has(r.template.spec)).map(r, r.template.spec)", at)))
	}
	trainer := fmt.Sprintf("has(%[1]s.trainer) && has(%[1]s.trainer.resourcesPerNode) && %[2]s", spec, differ(spec+".trainer.resourcesPerNode"))
	predictor := fmt.Sprintf("has(%[1]s.predictor) && (has(%[1]s.predictor.containers) && %[2]s || has(%[1]s.predictor.model) && has(%[1]s.predictor.model.resources) && %[3]s)",
		spec, unequalPods("["+spec+".predictor]"), differ(spec+".predictor.model.resources"))
	return strings.Join([]string{template, replicas("tfReplicaSpecs"), replicas("pytorchReplicaSpecs"), trainer, predictor}, " || ")
}

// unequalPods is the same for a list of specs of pods.
func unequalPods(list string) string {
	return fmt.Sprintf("%s.exists(s, ((has(s.containers) ? s.containers : []) + (has(s.initContainers) ? s.initContainers : [])).exists(c, has(c.resources) && %s))", list, differ("c.resources"))
}

// differ is the expression for requests of GPUs that are not limits, of the limits and requests at a place.
func differ(at string) string {
	return fmt.Sprintf("(has(%[1]s.requests) && %[1]s.requests.exists(k, %[2]s && (!has(%[1]s.limits) || !(k in %[1]s.limits) || quantity(string(%[1]s.limits[k])).compareTo(quantity(string(%[1]s.requests[k]))) != 0)))",
		at, isGPU("k"))
}
