package admission

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/user"
	"berth.dev/berth/kube/request"
)

// UsersName is the name of the policies of KeepUsers and StampUsers, and of their bindings.
const UsersName = "berth-users"

// UsersMessage is what a write gets that KeepUsers refuses.
const UsersMessage = "the annotations " + api.AnnotationUser + " and " + api.AnnotationUserOf +
	" say which user an object was created for, and the cluster writes them: leave them as they are, and out of what you create; " +
	"only identities that are configured to speak for others may name another user"

// writesUpdates are the operations that can change what an object says of its user.
var writesUpdates = []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}

// stampedRules match writes of the stamped resources, one rule for each group: of the objects
// alone, or of what else writes their metadata, too.
func stampedRules(everything bool) []admissionv1.NamedRuleWithOperations {
	var groups []string
	resources := map[string][]string{}
	for _, s := range request.StampedResources {
		if !slices.Contains(groups, s.Group) {
			groups = append(groups, s.Group)
		}
		resources[s.Group] = append(resources[s.Group], s.Resource)
		if everything {
			resources[s.Group] = append(resources[s.Group], s.Resource+"/status")
		}
	}
	if everything {
		resources[""] = append(resources[""], "pods/ephemeralcontainers", "pods/resize")
	}
	var out []admissionv1.NamedRuleWithOperations
	for _, group := range groups {
		r := rule(writesUpdates, resources[group]...)
		r.APIGroups, r.APIVersions = []string{group}, []string{"*"}
		out = append(out, r)
	}
	if everything {
		out = append(out, rule([]admissionv1.OperationType{admissionv1.Create}, "pods/binding", "bindings"))
	}
	return out
}

// KeepUsers makes the admission policy that refuses what p refuses: writes that name a user
// which is not the one who creates the object, or change it. It does so whether StampUsers is
// in force or not; where it is not, objects without a stamp have no known user.
func KeepUsers(p *user.Policy) Policy {
	policy := newPolicy(UsersName, admissionv1.Fail, stampedRules(true)...)
	// Most writes are done with after one expression: those that change nothing of it, and what
	// a user creates under its own name.
	policy.Spec.MatchConditions = []admissionv1.MatchCondition{{
		Name: "says-another-user",
		Expression: fmt.Sprintf("%[1]s != %[2]s && !(request.operation == 'CREATE' && request.kind.kind != 'Binding' && %[1]s == request.userInfo.username && !(%[1]s in %[5]s)) || %[3]s != %[4]s",
			noteOf("object", api.AnnotationUser), noteOf("oldObject", api.AnnotationUser), noteOf("object", api.AnnotationUserOf), noteOf("oldObject", api.AnnotationUserOf), names(p.Controllers)),
	}}
	policy.Spec.Variables = userVariables(p)
	policy.Spec.Validations = []admissionv1.Validation{{
		Expression: "request.kind.kind != 'Binding' && (request.operation == 'UPDATE' ? " +
			"variables.follows || (variables.user == variables.oldUser ? variables.of == variables.oldOf : variables.free && variables.of == '') : " +
			"variables.free ? variables.of == '' || variables.follows : " +
			"variables.forOwner ? variables.user == '' && variables.of == '' || variables.user == variables.by && variables.of == variables.owner : " +
			"variables.of == '' && (variables.user == '' || variables.user == variables.by))",
		Message: UsersMessage,
		Reason:  new(metav1.StatusReasonForbidden),
	}}
	return Policy{policy, newBinding(UsersName, admissionv1.Deny)}
}

// Stamps is a mutating policy and its binding.
type Stamps struct {
	Policy  *admissionv1.MutatingAdmissionPolicy
	Binding *admissionv1.MutatingAdmissionPolicyBinding
}

// StampUsers makes the admission policy that writes on each new object which user it was created
// for, and puts back what is changed later, as p.Stamp does.
func StampUsers(p *user.Policy) Stamps {
	rules := stampedRules(false)
	policy := &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: UsersName},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			// What a webhook changes afterwards, KeepUsers judges.
			FailurePolicy: new(admissionv1.Fail), ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: rules},
			MatchConditions: []admissionv1.MatchCondition{{
				Name: "is-new-or-says-another-user",
				Expression: fmt.Sprintf("request.operation == 'CREATE' || %s != %s || %s != %s",
					noteOf("object", api.AnnotationUser), noteOf("oldObject", api.AnnotationUser), noteOf("object", api.AnnotationUserOf), noteOf("oldObject", api.AnnotationUserOf)),
			}},
			Variables: append(userVariables(p), stampVariables()...),
		},
	}
	write := func(name, has, wants string) string {
		path := "'/metadata/annotations/' + jsonpatch.escapeKey('" + name + "')"
		return fmt.Sprintf("(%[2]s == %[1]s ? [] : %[2]s == '' ? [JSONPatch{op: 'remove', path: %[3]s}] : [JSONPatch{op: 'add', path: %[3]s, value: %[2]s}])", has, wants, path)
	}
	policy.Spec.Mutations = []admissionv1.Mutation{{
		PatchType: admissionv1.PatchTypeJSONPatch,
		JSONPatch: &admissionv1.JSONPatch{Expression: "(has(object.metadata.annotations) ? [] : [JSONPatch{op: 'add', path: '/metadata/annotations', value: {}}]) + " +
			write(api.AnnotationUser, "variables.user", "variables.newUser") + " + " + write(api.AnnotationUserOf, "variables.of", "variables.newOf")},
	}}
	return Stamps{policy, &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: UsersName},
		Spec:       admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: UsersName},
	}}
}

// noteOf is the expression for an annotation of an object, or ”.
func noteOf(object, name string) string {
	return fmt.Sprintf("(%[1]s == null || !has(%[1]s.metadata.annotations) || !('%[2]s' in %[1]s.metadata.annotations) ? '' : %[1]s.metadata.annotations['%[2]s'])", object, name)
}

// names writes names as a list of the expression language. They may have any character.
func names(list []string) string {
	quoted := make([]string, len(list))
	for i, name := range list {
		quoted[i] = strconv.QuoteToASCII(name)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// userVariables are a user.Write and what a user.Policy says of it: by, who writes; user and of,
// what the object says, and oldUser and oldOf, what it said; owner, the UID of its controller;
// free, whether the writer may name a user; follows, whether a ReplicaSet names its Deployment; forOwner, whether the object is created for its
// controller.
func userVariables(p *user.Policy) []admissionv1.Variable {
	return []admissionv1.Variable{
		{Name: "by", Expression: "request.userInfo.username"},
		{Name: "user", Expression: noteOf("object", api.AnnotationUser)},
		{Name: "of", Expression: noteOf("object", api.AnnotationUserOf)},
		{Name: "oldUser", Expression: noteOf("oldObject", api.AnnotationUser)},
		{Name: "oldOf", Expression: noteOf("oldObject", api.AnnotationUserOf)},
		{Name: "owners", Expression: "has(object.metadata.ownerReferences) ? object.metadata.ownerReferences.filter(r, has(r.controller) && r.controller) : []"},
		{Name: "owner", Expression: "size(variables.owners) > 0 ? variables.owners[0].uid : ''"},
		{Name: "speaks", Expression: "variables.by in " + names(p.Speakers)},
		{Name: "carries", Expression: "request.resource.group == 'apps' && request.resource.resource == 'replicasets' && variables.by in " + names(p.Carriers)},
		{Name: "free", Expression: "variables.speaks || variables.carries"},
		{Name: "follows", Expression: "variables.carries && variables.of != '' && variables.of == variables.owner"},
		{Name: "forOwner", Expression: "variables.owner != '' && variables.by in " + names(p.Controllers)},
	}
}

// stampVariables are what user.Policy.Stamp returns: newUser and newOf.
func stampVariables() []admissionv1.Variable {
	return []admissionv1.Variable{
		{Name: "updates", Expression: "request.operation == 'UPDATE'"},
		{Name: "keeps", Expression: "variables.carries || variables.speaks && variables.updates"},
		{Name: "puts", Expression: "variables.updates && variables.by.startsWith('system:')"},
		{Name: "named", Expression: "variables.user != '' ? variables.user : variables.oldUser"},
		{Name: "said", Expression: "variables.user != '' ? variables.user : " + noteOf("object", api.AnnotationHubUser) + " != '' ? " + noteOf("object", api.AnnotationHubUser) + " : " + noteOf("object", api.AnnotationCreator)},
		{Name: "newUser", Expression: "variables.keeps ? variables.named : variables.speaks ? (variables.said != '' ? variables.said : variables.by) : " +
			"variables.puts ? variables.oldUser : variables.updates ? variables.named : variables.by"},
		{Name: "newOf", Expression: "variables.carries && variables.of != '' && variables.owner != '' ? variables.owner : variables.keeps ? (variables.named == variables.oldUser ? variables.oldOf : '') : variables.speaks ? '' : " +
			"variables.puts ? variables.oldOf : variables.updates ? (variables.of != '' ? variables.of : variables.oldOf) : variables.forOwner ? variables.owner : ''"},
	}
}
