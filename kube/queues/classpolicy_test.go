package queues_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	generic "k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/kubernetes/scheme"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/queues"
)

// expression is a condition as the compiler of policies takes it.
type expression string

func (e expression) GetExpression() string    { return string(e) }
func (e expression) ReturnTypes() []*cel.Type { return []*cel.Type{cel.BoolType} }

// giver is the policy of default classes as an API server runs it.
type giver struct {
	t        *testing.T
	compiler *plugincel.CompositedCompiler
	matches  plugincel.ConditionEvaluator
	patcher  patch.Patcher
}

func compile(t *testing.T, policy *admissionv1.MutatingAdmissionPolicy) *giver {
	t.Helper()
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	options := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	for _, v := range policy.Spec.Variables {
		if r := compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, options, environment.StoredExpressions); r.Error != nil {
			t.Fatalf("variable %s: %v", v.Name, r.Error)
		}
	}
	var conditions []plugincel.ExpressionAccessor
	for _, c := range policy.Spec.MatchConditions {
		conditions = append(conditions, expression(c.Expression))
	}
	g := &giver{t: t, compiler: compiler, matches: compiler.CompileCondition(conditions, options, environment.StoredExpressions)}
	options.HasPatchTypes = true
	evaluator := compiler.CompileMutatingEvaluator(&patch.JSONPatchCondition{Expression: policy.Spec.Mutations[0].JSONPatch.Expression}, options, environment.StoredExpressions)
	if errs := evaluator.CompilationErrors(); len(errs) > 0 {
		t.Fatal(errs)
	}
	g.patcher = patch.NewJSONPatcher(evaluator)
	return g
}

// after is a pod after the policy, which sees it as the API server's plugins left it.
func (g *giver) after(pod *v1.Pod, ns *v1.Namespace) *v1.Pod {
	g.t.Helper()
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	record := generic.NewAttributesRecord(pod, nil, v1.SchemeGroupVersion.WithKind("Pod"), pod.Namespace, pod.Name, v1.SchemeGroupVersion.WithResource("pods"), "", generic.Create, nil, false, &user.DefaultInfo{Name: "ada"})
	a := &generic.VersionedAttributes{Attributes: record, VersionedObject: pod, VersionedKind: v1.SchemeGroupVersion.WithKind("Pod")}
	ctx := g.compiler.CreateContext(g.t.Context())
	r := plugincel.CreateAdmissionRequest(record, metav1.GroupVersionResource(record.GetResource()), metav1.GroupVersionKind(a.VersionedKind))
	verdicts, _, err := g.matches.ForInput(ctx, a, r, plugincel.OptionalVariableBindings{}, nil, 10_000_000)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, v := range verdicts {
		if v.Error != nil {
			g.t.Fatal(v.Error)
		}
		if v.EvalResult.Value() != true {
			return pod
		}
	}
	o, err := g.patcher.Patch(ctx, patch.Request{
		MatchedResource: record.GetResource(), VersionedAttributes: a, ObjectInterfaces: generic.NewObjectInterfacesFromScheme(scheme.Scheme), Namespace: ns,
	}, 10_000_000)
	if err != nil {
		g.t.Fatal(err)
	}
	out := &v1.Pod{}
	raw, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(raw, out)
	}
	if err != nil {
		g.t.Fatal(err)
	}
	return out
}

// admitted is a pod as its author wrote it, with the fields that the author has, as the plugin for
// priorities leaves it in a cluster with a global default, or "" without one.
func admitted(pod *v1.Pod, global string, value int32) *v1.Pod {
	out := pod.DeepCopy()
	var own []string
	for field, set := range map[string]bool{"priorityClassName": pod.Spec.PriorityClassName != "", "priority": pod.Spec.Priority != nil, "preemptionPolicy": pod.Spec.PreemptionPolicy != nil, "containers": true} {
		if set {
			own = append(own, fmt.Sprintf(`"f:%s":{}`, field))
		}
	}
	out.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "x", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:name":{}}}`)},
		{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{` + strings.Join(own, ",") + `}}`)},
	}
	if out.Spec.PriorityClassName == "" {
		out.Spec.PriorityClassName = global
	}
	if out.Spec.Priority == nil {
		out.Spec.Priority = &value
	}
	if out.Spec.PreemptionPolicy == nil {
		out.Spec.PreemptionPolicy = new(v1.PreemptLowerPriority)
	}
	return out
}

// TestThePolicyGivesWhatOfSays compares the policy with Of and QueueOf on random Queues, namespaces
// and pods. A class of the author is never replaced.
//
// rows: AS-63 AS-68
func TestThePolicyGivesWhatOfSays(t *testing.T) {
	gave, kept, moved := 0, 0, 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 18))
		pick := func(list ...string) string { return list[r.IntN(len(list))] }
		list := randomQueues(r, pick)
		d, _ := queues.NewDefaultClasses(list, ours)
		m := queues.NewMembers(list).In(queues.Around{Kueue: func() bool { return seed%3 == 0 }})
		policy, binding := d.Policy(m)
		if len(d) == 0 {
			if policy != nil || binding != nil {
				t.Fatal("a policy where no queue names a class")
			}
			continue
		}
		if binding.Spec.PolicyName != policy.Name {
			t.Fatalf("the binding is of %s", binding.Spec.PolicyName)
		}
		g := compile(t, policy)
		for range 150 {
			ns := namespace(pick("n0", "n1", "n2", "n3"), map[string]string{"k0": pick("0", "1"), "k1": pick("0", "1", "2")})
			if r.IntN(4) == 0 {
				ns.Labels[api.LabelQueue] = pick("q0", "q1", "gone", "")
			}
			if r.IntN(8) == 0 {
				ns.Labels = nil
			}
			pod := randomPod(r, pick)
			pod.Namespace = ns.Name
			want, queue := d.Of(pod, m.QueueOf(pod, ns)), m.QueueOf(pod, ns)
			before := admitted(pod, pick("", "gpu-global"), int32(r.IntN(2))*1000)
			got := g.after(before.DeepCopy(), ns)
			switch {
			case want != "":
				gave++
				if got.Spec.PriorityClassName != want || got.Spec.Priority != nil || got.Spec.PreemptionPolicy != nil {
					t.Fatalf("seed %d: a pod of queue %q has class %q and priority %v, want %q alone: %v", seed, queue, got.Spec.PriorityClassName, got.Spec.Priority, want, pod)
				}
			default:
				if got.Spec.PriorityClassName != before.Spec.PriorityClassName || got.Spec.Priority == nil || got.Spec.PreemptionPolicy == nil {
					t.Fatalf("seed %d: a pod of queue %q that gets no class has %q, want %q: %v", seed, queue, got.Spec.PriorityClassName, before.Spec.PriorityClassName, pod)
				}
				if pod.Spec.PriorityClassName != "" && len(d[queue]) > 0 {
					kept++
				}
			}
			if strings.HasPrefix(got.Spec.PriorityClassName, queues.SystemClass) {
				t.Fatalf("seed %d: a pod got %s", seed, got.Spec.PriorityClassName)
			}
			if asked := pod.Labels[api.LabelQueue]; want != "" && asked != "" && queue == asked {
				moved++
			}
		}
	}
	if gave < 200 || kept < 200 || moved < 20 {
		t.Errorf("%d pods got a class, %d kept their own, %d were of the queue of their label", gave, kept, moved)
	}
}

func randomQueues(r *rand.Rand, pick func(...string) string) []*v1alpha1.Queue {
	var list []*v1alpha1.Queue
	for i := range 1 + r.IntN(6) {
		n := v1alpha1.QueueNamespaces{}
		if r.IntN(3) == 0 {
			n.Names = []string{pick("n0", "n1", "n2", "n3"), "x" + fmt.Sprint(i)}
		}
		if r.IntN(2) == 0 {
			n.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"k0": pick("0", "1")}}
			op := metav1.LabelSelectorOperator(pick("In", "NotIn", "Exists", "DoesNotExist"))
			e := metav1.LabelSelectorRequirement{Key: pick("k0", "k1", "k2"), Operator: op}
			if op == metav1.LabelSelectorOpIn || op == metav1.LabelSelectorOpNotIn {
				e.Values = []string{"0", pick("1", "2")}
			}
			if r.IntN(2) == 0 {
				n.Selector.MatchExpressions = append(n.Selector.MatchExpressions, e)
			}
			if r.IntN(3) == 0 {
				n.Selector.MatchLabels = nil
			}
		}
		if r.IntN(2) == 0 {
			n.LabeledPods = []string{pick("*", "n0", "n1"), "n3"}
		}
		q := queueOf(fmt.Sprint("q", i), r.IntN(3), takes(n), below(pick("", "", "q0", "q1", "none")))
		q.Spec.Default = r.IntN(3) == 0
		if r.IntN(2) == 0 {
			gives(pick("", "gpu-low"), pick("", "gpu-normal", "gone"), pick("", "gpu-critical", "system-cluster-critical"))(&q.Spec)
		}
		list = append(list, q)
	}
	return list
}

func randomPod(r *rand.Rand, pick func(...string) string) *v1.Pod {
	pod := kubetest.Pod("p", "", pick("nvidia.com/gpu", "cpu", "nvidia.com/mig-1g.5gb", "nvidia.com/gpumem", "nvidia.com/gpu.shared"), r.IntN(3))
	if r.IntN(3) == 0 { // of an init container alone
		pod.Spec.InitContainers, pod.Spec.Containers = pod.Spec.Containers, []v1.Container{{Name: "main"}}
	}
	if r.IntN(5) == 0 {
		pod.Annotations[api.AnnotationKAIFraction] = "0.5"
	}
	if kind := pick("", "Job", "Job", "PyTorchJob", "ReplicaSet"); kind != "" {
		kubetest.Controlled(pod, kind, "o").OwnerReferences[0].APIVersion = pick("batch/v1", "batch.volcano.sh/v1alpha1")
	}
	for _, label := range []string{api.LabelNotebook, api.LabelInferenceService, api.LabelKnativeService, api.LabelJobSet} {
		if r.IntN(6) == 0 {
			pod.Labels[label] = pick("x", "")
		}
	}
	if r.IntN(6) == 0 {
		pod.Labels[api.LabelComponent], pod.Annotations[api.AnnotationHubUser] = api.ComponentHubServer, pick("", "ada")
	}
	if r.IntN(2) == 0 {
		pod.Labels[api.LabelQueue] = pick("q0", "q1", "q2", "gone")
	}
	for _, label := range []string{api.LabelKueueQueue, api.LabelKAIQueue, api.KeyVolcanoQueue} {
		if r.IntN(6) == 0 {
			pod.Labels[label] = pick("q0", "q1", "q2", "gone", "")
		}
	}
	for _, note := range []string{api.AnnotationVolcanoQueue, api.KeyVolcanoQueue} {
		if r.IntN(6) == 0 {
			pod.Annotations[note] = pick("q0", "q1", "q2", "gone", "")
		}
	}
	switch r.IntN(6) {
	case 0, 1:
		pod.Spec.PriorityClassName = pick("mine", "gpu-low", "gpu-global")
	case 2:
		pod.Spec.Priority = new(int32(0))
	case 3:
		pod.Spec.PreemptionPolicy = new(v1.PreemptLowerPriority)
	}
	return pod
}

func TestThePolicyHasRoomForManyNames(t *testing.T) {
	q := queueOf("big", 1, gives("gpu-low", "", ""))
	q.Spec.Namespaces = &v1alpha1.QueueNamespaces{}
	for i := range 6000 {
		q.Spec.Namespaces.Names = append(q.Spec.Namespaces.Names, fmt.Sprintf("%s-%d", strings.Repeat("team", 12), i))
	}
	d, _ := queues.NewDefaultClasses([]*v1alpha1.Queue{q}, ours)
	policy, _ := d.Policy(queues.NewMembers([]*v1alpha1.Queue{q}))
	pod := kubetest.Pod("p", "", "nvidia.com/gpu", 1)
	pod.Labels[api.LabelNotebook] = "nb"
	g := compile(t, policy)
	for _, name := range []string{q.Spec.Namespaces.Names[0], q.Spec.Namespaces.Names[5999]} {
		pod.Namespace = name
		if got := g.after(admitted(pod, "", 0), namespace(name, nil)).Spec.PriorityClassName; got != "gpu-low" {
			t.Errorf("a notebook of namespace %s gets %q", name, got)
		}
	}
	pod.Namespace = "other"
	if got := g.after(admitted(pod, "", 0), namespace("other", nil)).Spec.PriorityClassName; got != "" {
		t.Errorf("a notebook of another namespace gets %q", got)
	}
}
