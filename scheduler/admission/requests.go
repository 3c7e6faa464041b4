package admission

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/request"
)

// RequestsName is the name of the policy of Requests and of its binding.
const RequestsName = "berth-requests"

// Policy is a policy and its binding.
type Policy struct {
	Policy  *admissionv1.ValidatingAdmissionPolicy
	Binding *admissionv1.ValidatingAdmissionPolicyBinding
}

// Requests makes the admission policy that refuses new pods whose requests for
// GPUs nothing can meet, with a sentence that says what to write instead: the
// same as request.Check, and as request.CheckLimit for a cluster whose largest
// GPU has so much memory; 0 is unknown. The figure is part of the
// policy, so that no other object has to be read for each pod: LargestGPU applies
// the policy again when it changes.
func Requests(largestMiB int64) Policy {
	policy := newPolicy(RequestsName, admissionv1.Fail, rule([]admissionv1.OperationType{admissionv1.Create}, "pods"))
	policy.Spec.Variables = requestVariables()
	for _, v := range []struct{ fault, holds string }{
		{request.FaultNoSize, "variables.kai || !('" + api.AnnotationKAIDevices + "' in variables.notes)"},
		{request.FaultTwoSizes, "variables.fraction == '' || variables.memory == ''"},
		{request.FaultFraction, "variables.fraction == '' || variables.fraction.matches('" + request.DecimalForm + "') && double(variables.fraction) > 0.0 && double(variables.fraction) <= 1.0"},
		{request.FaultMemory, "variables.memory == '' || variables.memory.matches('" + request.WholeForm + "') && int(variables.memory) > 0"},
		{request.FaultDevices, "!variables.kai || !('" + api.AnnotationKAIDevices + "' in variables.notes) || variables.notes['" + api.AnnotationKAIDevices + "'].matches('" + request.WholeForm +
			"') && int(variables.notes['" + api.AnnotationKAIDevices + "']) > 0"},
		{request.FaultContainer, "!variables.kai || !('" + api.AnnotationKAIContainer + "' in variables.notes) || variables.containers.exists(c, c.name == variables.notes['" +
			api.AnnotationKAIContainer + "'])"},
		{request.FaultTwice, "!variables.kai || !variables.asked.exists(a, a.exists(k, " + isGPU("k") + "))"},
		{request.FaultMIG, "!variables.asked.exists(a, a.exists(k, k.startsWith('" + api.ResourceMIGPrefix + "')) && a.exists(k, k in " + list(append(hami, append(volcano, api.ResourceGPUMemory)...)) + "))"},
		{request.FaultSpellings, "!variables.asked.exists(a, '" + api.ResourceGPUMemory + "' in a && a.exists(k, k in " + list(append(hami, volcano...)) + ") || " +
			"a.exists(k, k in " + list(hami) + ") && a.exists(k, k in " + list(volcano) + "))"},
		{request.FaultDivided, "!variables.asked.exists(a, '" + api.ResourceGPUShared + "' in a && a.exists(k, k in " + list(append(hami, append(volcano, api.ResourceGPUMemory)...)) + "))"},
		{request.FaultVolcano, "!variables.asked.exists(a, '" + api.ResourceGPU + "' in a && a.exists(k, k in " + list(volcano) + "))"},
		{request.FaultAmounts, fmt.Sprintf("!variables.asked.exists(a, '%s' in a && '%s' in a || '%s' in a && '%s' in a)",
			api.ResourceHAMiMemory, api.ResourceHAMiPercentage, api.ResourceVolcanoMemory, api.ResourceVolcanoPercentage)},
		{request.FaultPercent, "!variables.limits.exists(l, l.exists(k, k in " +
			list([]string{api.ResourceHAMiPercentage, api.ResourceHAMiCores, api.ResourceVolcanoPercentage, api.ResourceVolcanoCores}) +
			" && quantity(string(l[k])).isGreaterThan(quantity('100'))))"},
	} {
		policy.Spec.Validations = append(policy.Spec.Validations, admissionv1.Validation{Expression: v.holds, Message: v.fault})
	}
	if largestMiB > 0 {
		policy.Spec.Validations = append(policy.Spec.Validations, limit(largestMiB))
	}
	return Policy{policy, newBinding(RequestsName, admissionv1.Deny)}
}

// limit refuses pods that ask for more memory of one GPU than the largest has.
func limit(largestMiB int64) admissionv1.Validation {
	over := func(name string, most int64) string {
		return fmt.Sprintf("'%[1]s' in l && quantity(string(l['%[1]s'])).isGreaterThan(quantity('%[2]d'))", name, most)
	}
	return admissionv1.Validation{
		Expression: fmt.Sprintf("!variables.limits.exists(l, %s || %s || %s) && (!variables.memory.matches('%s') || int(variables.memory) <= %d)",
			over(api.ResourceGPUMemory, largestMiB/1024), over(api.ResourceHAMiMemory, largestMiB), over(api.ResourceVolcanoMemory, largestMiB), request.WholeForm, largestMiB),
		Message: fmt.Sprintf(request.FaultLargest, largestMiB/1024),
	}
}

var (
	hami    = []string{api.ResourceHAMiMemory, api.ResourceHAMiPercentage, api.ResourceHAMiCores}
	volcano = []string{api.ResourceVolcanoNumber, api.ResourceVolcanoMemory, api.ResourceVolcanoPercentage, api.ResourceVolcanoCores}
)

// list writes names as a list of the expression language.
func list(names []string) string { return "['" + strings.Join(names, "', '") + "']" }

// isGPU is the expression for a resource that is GPUs, of any form.
func isGPU(name string) string {
	plain := append([]string{api.ResourceGPU, api.ResourceGPUShared, api.ResourceGPUMemory}, append(hami[:3:3], volcano...)...)
	return "(" + name + " in " + list(plain) + " || " + name + ".startsWith('" + api.ResourceMIGPrefix + "'))"
}

// requestVariables are what the validations speak of: notes, the pod's
// annotations; fraction and memory, what KAI's say, ” where they are missing,
// and kai, whether one is there; containers, init containers too; limits, the
// limits of each; and asked, the names of those limits that are GPUs and not 0.
func requestVariables() []admissionv1.Variable {
	note := func(name string) string {
		return fmt.Sprintf("'%[1]s' in variables.notes ? variables.notes['%[1]s'] : ''", name)
	}
	return []admissionv1.Variable{
		{Name: "notes", Expression: "has(object.metadata.annotations) ? object.metadata.annotations : {}"},
		{Name: "fraction", Expression: note(api.AnnotationKAIFraction)},
		{Name: "memory", Expression: note(api.AnnotationKAIMemory)},
		{Name: "kai", Expression: "variables.fraction != '' || variables.memory != ''"},
		{Name: "containers", Expression: "object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])"},
		{Name: "limits", Expression: "variables.containers.map(c, has(c.resources) && has(c.resources.limits) ? c.resources.limits : {})"},
		{Name: "asked", Expression: "variables.limits.map(l, l.filter(k, " + isGPU("k") + " && quantity(string(l[k])).isGreaterThan(quantity('0'))))"},
	}
}
