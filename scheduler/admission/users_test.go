package admission_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	generic "k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/kubernetes/scheme"

	"berth.dev/berth/api"
	users "berth.dev/berth/core/user"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/admission"
)

const (
	hub      = "system:serviceaccount:jhub:hub"
	operator = `CN="operator",O=a\b'c`
	jobs     = "system:serviceaccount:kube-system:job-controller"
	deployer = "system:serviceaccount:kube-system:deployment-controller"
)

var userPolicy = users.NewPolicy([]string{hub, "robot@ci"}, []string{operator})

// attributes is w as the API server has it.
func attributes(w *users.Write) *generic.VersionedAttributes {
	object := func(s users.Stamp) runtime.Object {
		meta := metav1.ObjectMeta{Name: "p", Namespace: "n"}
		if w.Controller != "" {
			meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Other", Name: "o", UID: "other"}, {APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: types.UID(w.Controller), Controller: new(true)}}
		}
		if w.Said != "" {
			meta.Annotations = map[string]string{api.AnnotationHubUser: w.Said}
		}
		request.SetStamp(&meta, s)
		if w.ReplicaSet {
			return &appsv1.ReplicaSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}, ObjectMeta: meta}
		}
		return &v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}}}
	}
	kind, resource := v1.SchemeGroupVersion.WithKind("Pod"), v1.SchemeGroupVersion.WithResource("pods")
	if w.ReplicaSet {
		kind, resource = appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), appsv1.SchemeGroupVersion.WithResource("replicasets")
	}
	now := object(w.After)
	var before runtime.Object
	operation := generic.Create
	if w.Update {
		operation, before = generic.Update, object(w.Before)
	}
	attr := generic.NewAttributesRecord(now, before, kind, "n", "p", resource, "", operation, nil, false, &user.DefaultInfo{Name: w.By})
	return &generic.VersionedAttributes{Attributes: attr, VersionedObject: now, VersionedOldObject: before, VersionedKind: kind}
}

// compiled is a policy of users as the API server compiles it.
type compiled struct {
	t        *testing.T
	compiler *plugincel.CompositedCompiler
	matches  plugincel.ConditionEvaluator
	holds    plugincel.ConditionEvaluator
	patcher  patch.Patcher
}

func compile(t *testing.T, variables []admissionv1.Variable, on []admissionv1.MatchCondition, validations []admissionv1.Validation, mutations []admissionv1.Mutation) *compiled {
	t.Helper()
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	options := plugincel.OptionalVariableDeclarations{}
	for _, v := range variables {
		if r := compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, options, environment.StoredExpressions); r.Error != nil {
			t.Fatalf("variable %s: %v", v.Name, r.Error)
		}
	}
	condition := func(texts ...string) plugincel.ConditionEvaluator {
		var list []plugincel.ExpressionAccessor
		for _, text := range texts {
			list = append(list, expression{text: text, returns: cel.BoolType})
		}
		return compiler.CompileCondition(list, options, environment.StoredExpressions)
	}
	c := &compiled{t: t, compiler: compiler, matches: condition(on[0].Expression)}
	for _, v := range validations {
		c.holds = condition(v.Expression)
	}
	for _, m := range mutations {
		options.HasPatchTypes = true
		evaluator := compiler.CompileMutatingEvaluator(&patch.JSONPatchCondition{Expression: m.JSONPatch.Expression}, options, environment.StoredExpressions)
		if errs := evaluator.CompilationErrors(); len(errs) > 0 {
			t.Fatal(errs)
		}
		c.patcher = patch.NewJSONPatcher(evaluator)
	}
	return c
}

func keepUsers(t *testing.T) *compiled {
	s := admission.KeepUsers(userPolicy).Policy.Spec
	return compile(t, s.Variables, s.MatchConditions, s.Validations, nil)
}

func stampUsers(t *testing.T) *compiled {
	s := admission.StampUsers(userPolicy).Policy.Spec
	return compile(t, s.Variables, s.MatchConditions, nil, s.Mutations)
}

// ask evaluates conditions on a write: whether all hold.
func (c *compiled) ask(e plugincel.ConditionEvaluator, a *generic.VersionedAttributes) bool {
	c.t.Helper()
	r := plugincel.CreateAdmissionRequest(a.Attributes, metav1.GroupVersionResource(a.GetResource()), metav1.GroupVersionKind(a.VersionedKind))
	verdicts, _, err := e.ForInput(c.compiler.CreateContext(c.t.Context()), a, r, plugincel.OptionalVariableBindings{}, nil, 10_000_000)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, v := range verdicts {
		if v.Error != nil {
			c.t.Fatal(v.Error)
		}
		if v.EvalResult.Value() != true {
			return false
		}
	}
	return true
}

// refuses reports whether the policy refuses a write.
func (c *compiled) refuses(w *users.Write) bool {
	c.t.Helper()
	a := attributes(w)
	return c.ask(c.matches, a) && !c.ask(c.holds, a)
}

// stamps returns what the object says after a write.
func (c *compiled) stamps(w *users.Write) users.Stamp {
	c.t.Helper()
	a := attributes(w)
	if !c.ask(c.matches, a) {
		return w.After
	}
	o, err := c.patcher.Patch(c.compiler.CreateContext(c.t.Context()), patch.Request{
		MatchedResource: a.GetResource(), VersionedAttributes: a, ObjectInterfaces: generic.NewObjectInterfacesFromScheme(scheme.Scheme),
	}, 10_000_000)
	if err != nil {
		c.t.Fatal(err)
	}
	return request.StampOf(o.(metav1.Object))
}

// TestUserPoliciesSayWhatCoreSays compares the policies with user.Policy on writes of every
// form.
func TestUserPoliciesSayWhatCoreSays(t *testing.T) {
	keep, stamp := keepUsers(t), stampUsers(t)
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	long := strings.Repeat("ключ", 40) // 320 bytes
	refused, changed := 0, 0
	for range 6000 {
		by := pick(hub, "robot@ci", operator, jobs, deployer, "ada", "bob", long, "system:serviceaccount:n:s", "system:node:n", "O'Neil \"x\"\\")
		w := users.Write{By: by, Update: r.IntN(2) == 0, ReplicaSet: r.IntN(3) == 0}
		w.Controller, w.Said = pick("", "u1", "u2"), pick("", "", "eve")
		w.After = users.Stamp{User: pick("", "ada", by, jobs, long), Controller: pick("", "", "u1", "u2")}
		if w.Update {
			w.Before = users.Stamp{User: pick("", "ada", w.After.User, jobs), Controller: pick("", w.After.Controller, "u1")}
		}
		if got, want := keep.refuses(&w), userPolicy.Refuses(&w); got != want {
			t.Fatalf("refused: %v, want %v: %+v", got, want, w)
		} else if got {
			refused++
		}
		got, want := stamp.stamps(&w), userPolicy.Stamp(&w)
		if got != want {
			t.Fatalf("stamps %+v, want %+v: %+v", got, want, w)
		}
		if got != w.After {
			changed++
		}
		once := w
		once.After = got
		if again := stamp.stamps(&once); again != got {
			t.Fatalf("stamped twice: %+v, then %+v: %+v", got, again, w)
		}
	}
	if refused < 1000 || changed < 1000 {
		t.Errorf("%d writes were refused and %d changed", refused, changed)
	}
}

// TestBindingsSayNoUser has the policy refuse a binding that would put a stamp on a pod.
func TestBindingsSayNoUser(t *testing.T) {
	keep := keepUsers(t)
	for _, tt := range []struct {
		notes map[string]string
		want  bool
	}{
		{nil, false},
		{map[string]string{api.AnnotationDevices: "{}"}, false},
		{map[string]string{api.AnnotationUser: "scheduler"}, true},
		{map[string]string{api.AnnotationUserOf: "u"}, true},
	} {
		b := &v1.Binding{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Binding"}, ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: tt.notes}}
		kind := v1.SchemeGroupVersion.WithKind("Binding")
		attr := generic.NewAttributesRecord(b, nil, kind, "n", "p", v1.SchemeGroupVersion.WithResource("pods"), "binding", generic.Create, nil, false, &user.DefaultInfo{Name: "scheduler"})
		a := &generic.VersionedAttributes{Attributes: attr, VersionedObject: b, VersionedKind: kind}
		if got := keep.ask(keep.matches, a) && !keep.ask(keep.holds, a); got != tt.want {
			t.Errorf("a binding with %v is refused: %v, want %v", tt.notes, got, tt.want)
		}
	}
}

// TestEveryStampedResourceIsMatched holds the rules of the policies to the resources.
func TestEveryStampedResourceIsMatched(t *testing.T) {
	count := func(rules []admissionv1.NamedRuleWithOperations) map[schema.GroupResource]bool {
		out := map[schema.GroupResource]bool{}
		for _, r := range rules {
			for _, name := range r.Resources {
				out[schema.GroupResource{Group: r.APIGroups[0], Resource: name}] = true
			}
		}
		return out
	}
	keep, stamp := count(admission.KeepUsers(userPolicy).Policy.Spec.MatchConstraints.ResourceRules), count(admission.StampUsers(userPolicy).Policy.Spec.MatchConstraints.ResourceRules)
	for _, s := range request.StampedResources {
		status := s.GroupResource
		status.Resource += "/status"
		if !keep[s.GroupResource] || !keep[status] || !stamp[s.GroupResource] || stamp[status] {
			t.Errorf("%v: kept %v, its status %v, stamped %v", s, keep[s.GroupResource], keep[status], stamp[s.GroupResource])
		}
	}
	for _, name := range []string{"pods/binding", "bindings", "pods/resize", "pods/ephemeralcontainers"} {
		if !keep[schema.GroupResource{Resource: name}] {
			t.Errorf("%s is not kept", name)
		}
	}
}
