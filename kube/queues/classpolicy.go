package queues

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/request"
)

// DefaultClassesName is the name of the policy of DefaultClasses.Policy and of its binding.
const DefaultClassesName = "berth-default-classes"

// Policy makes the admission policy that gives new pods the class which Of returns, for the queues of
// m, and its binding. Both are nil if no queue has classes.
//
// The API server resolves the priority of a pod before it asks policies, and then asks all of its
// own plugins once more, as a policy has changed the pod. So the policy names the class and removes
// what was resolved before: Kubernetes itself finds the priority of the class the second time. It also
// has named the global default by then, so who named a class is read from the managed fields, which are
// of the author.
func (d DefaultClasses) Policy(m *Members) (*admissionv1.MutatingAdmissionPolicy, *admissionv1.MutatingAdmissionPolicyBinding) {
	if len(d) == 0 {
		return nil, nil
	}
	policy := &admissionv1.MutatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "MutatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: DefaultClassesName},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			// A pod without its default is better than none.
			FailurePolicy: new(admissionv1.Ignore), ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}}}},
			MatchConditions: []admissionv1.MatchCondition{
				{Name: "is-of-a-kind", Expression: workExpression + " != ''"},
				{Name: "names-no-class", Expression: namesNone},
			},
			Variables: slices.Concat(m.variables(), d.variables()),
		},
	}
	drop := func(field string) string {
		return fmt.Sprintf("(has(object.spec.%[1]s) ? [JSONPatch{op: 'remove', path: '/spec/%[1]s'}] : [])", field)
	}
	policy.Spec.Mutations = []admissionv1.Mutation{{
		PatchType: admissionv1.PatchTypeJSONPatch,
		JSONPatch: &admissionv1.JSONPatch{Expression: "variables.class == '' ? [] : [JSONPatch{op: 'add', path: '/spec/priorityClassName', value: variables.class}] + " +
			drop("priority") + " + " + drop("preemptionPolicy")},
	}}
	return policy, &admissionv1.MutatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: policy.APIVersion, Kind: "MutatingAdmissionPolicyBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: DefaultClassesName},
		Spec:       admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: DefaultClassesName},
	}
}

// workExpression is request.WorkOf.
var workExpression = fmt.Sprintf("(%s != '' || %s == '%s' && %s != '' ? '%s' : %s != '' || %s != '' ? '%s' : %s != '' || size(%s) > 0 ? '%s' : '')", //nolint:gochecknoglobals // a constant, if Sprintf were one
	said("labels", api.LabelNotebook), said("labels", api.LabelComponent), api.ComponentHubServer, said("annotations", api.AnnotationHubUser), request.WorkNotebook,
	said("labels", api.LabelInferenceService), said("labels", api.LabelKnativeService), request.WorkServing,
	said("labels", api.LabelJobSet), jobsExpression, request.WorkTraining)

const (
	// jobsExpression is the controllers of a pod whose kind is one of jobs.
	jobsExpression = "(has(object.metadata.ownerReferences) ? object.metadata.ownerReferences.filter(r, has(r.controller) && r.controller && r.kind.endsWith('Job')) : [])"
	// namesNone is that the author of a pod has written no class, priority or preemption policy. Fields of
	// which no author is known count as the author's.
	namesNone = "(has(object.metadata.managedFields) && size(object.metadata.managedFields) > 0 ? " +
		"!object.metadata.managedFields.exists(m, has(m.fieldsV1) && 'f:spec' in m.fieldsV1 && " +
		"['f:priorityClassName', 'f:priority', 'f:preemptionPolicy'].exists(f, f in m.fieldsV1['f:spec'])) : " +
		"!has(object.spec.priorityClassName) || object.spec.priorityClassName == '')"
)

// said is the expression for a label or an annotation of the pod, or ”.
func said(in, name string) string {
	return fmt.Sprintf("(has(object.metadata.%[1]s) && '%[2]s' in object.metadata.%[1]s ? object.metadata.%[1]s['%[2]s'] : '')", in, name)
}

// variables are what Of returns: class, of the queue that Members.variables finds.
func (d DefaultClasses) variables() []admissionv1.Variable {
	var sets, setOf []string // most queues have the same classes
	for _, queue := range sortedKeys(d) {
		var of []string
		for _, work := range sortedKeys(d[queue]) {
			of = append(of, quoted(string(work))+": "+quoted(d[queue][work]))
		}
		set := "{" + strings.Join(of, ", ") + "}"
		at := slices.Index(sets, set)
		if at < 0 {
			at, sets = len(sets), append(sets, set)
		}
		setOf = append(setOf, quoted(queue)+": "+strconv.Itoa(at))
	}
	out, find := lookUp("setOf", setOf, "variables.queue", "-1")
	gpus := fmt.Sprintf("(k.startsWith('%s') || k in %s)", api.ResourceMIGPrefix, listed([]string{
		api.ResourceGPU, api.ResourceGPUShared, api.ResourceGPUMemory, api.ResourceHAMiMemory, api.ResourceHAMiPercentage, api.ResourceHAMiCores,
		api.ResourceVolcanoNumber, api.ResourceVolcanoMemory, api.ResourceVolcanoPercentage, api.ResourceVolcanoCores,
	}))
	return append(out,
		admissionv1.Variable{Name: "set", Expression: find},
		admissionv1.Variable{Name: "sets", Expression: "[" + strings.Join(sets, ", ") + "]"},
		admissionv1.Variable{Name: "work", Expression: workExpression},
		admissionv1.Variable{Name: "inTrainingJob", Expression: said("labels", api.LabelJobSet) + " != '' || " + jobsExpression +
			fmt.Sprintf(".exists(r, r.kind != 'Job' || !r.apiVersion.startsWith('%s/'))", batchv1.GroupName)},
		admissionv1.Variable{Name: "containers", Expression: "object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])"},
		admissionv1.Variable{Name: "asksForGPUs", Expression: said("annotations", api.AnnotationKAIFraction) + " != '' || " + said("annotations", api.AnnotationKAIMemory) + " != '' || " +
			"variables.containers.exists(c, has(c.resources) && has(c.resources.limits) && c.resources.limits.exists(k, " + gpus + " && quantity(string(c.resources.limits[k])).isGreaterThan(quantity('0'))))"},
		admissionv1.Variable{Name: "class", Expression: "variables.set >= 0 && variables.work in variables.sets[variables.set] && (variables.inTrainingJob || variables.asksForGPUs) ? " +
			"variables.sets[variables.set][variables.work] : ''"},
	)
}
