package admission_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	generic "k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/admission"
)

// expression is one expression of a policy, as the API server's compiler wants it.
type expression struct {
	name, text string
	returns    *cel.Type
}

func (e expression) GetExpression() string    { return e.text }
func (e expression) GetName() string          { return e.name }
func (e expression) ReturnTypes() []*cel.Type { return []*cel.Type{e.returns} }

// judge is judgeWrites of new pods.
func judge(t testing.TB, p admission.Policy) func(*v1.Pod) []string {
	t.Helper()
	says := judgeWrites(t, p)
	return func(pod *v1.Pod) []string {
		return says(pod, nil, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, schema.GroupVersionResource{Version: "v1", Resource: "pods"})
	}
}

// judgeWrites compiles a policy as an API server of this version does, and gives what
// it says of objects and what they were before, if they were: the messages of the validations that do not hold.
func judgeWrites(t testing.TB, p admission.Policy) func(object, old runtime.Object, kind schema.GroupVersionKind, gvr schema.GroupVersionResource) []string {
	t.Helper()
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	options := plugincel.OptionalVariableDeclarations{}
	for _, v := range p.Policy.Spec.Variables {
		if r := compiler.CompileAndStoreVariable(expression{v.Name, v.Expression, cel.AnyType}, options, environment.StoredExpressions); r.Error != nil {
			t.Fatalf("variable %s: %v", v.Name, r.Error)
		}
	}
	var checks, texts []plugincel.ExpressionAccessor
	for _, v := range p.Policy.Spec.Validations {
		checks = append(checks, expression{text: v.Expression, returns: cel.BoolType})
		text := v.MessageExpression
		if text == "" {
			text = "'" + strings.ReplaceAll(v.Message, "'", "\\'") + "'"
		}
		texts = append(texts, expression{text: text, returns: cel.StringType})
	}
	holds := compiler.CompileCondition(checks, options, environment.StoredExpressions)
	says := compiler.CompileCondition(texts, options, environment.StoredExpressions)
	return func(object, old runtime.Object, kind schema.GroupVersionKind, gvr schema.GroupVersionResource) []string {
		operation := generic.Create
		if old != nil {
			operation = generic.Update
		}
		attr := generic.NewAttributesRecord(object, old, kind, "default", "p", gvr, "", operation, &metav1.CreateOptions{}, false, nil)
		versioned := &generic.VersionedAttributes{Attributes: attr, VersionedObject: object, VersionedOldObject: old, VersionedKind: kind}
		request := plugincel.CreateAdmissionRequest(attr, metav1.GroupVersionResource(gvr), metav1.GroupVersionKind(kind))
		bindings := plugincel.OptionalVariableBindings{}
		ctx := compiler.CreateContext(t.Context())
		verdicts, _, err := holds.ForInput(ctx, versioned, request, bindings, nil, 10_000_000)
		if err != nil {
			t.Fatal(err)
		}
		messages, _, err := says.ForInput(compiler.CreateContext(t.Context()), versioned, request, bindings, nil, 10_000_000)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for i, v := range verdicts {
			switch {
			case v.Error != nil:
				out = append(out, fmt.Sprintf("%s: %v", p.Policy.Spec.Validations[i].Expression, v.Error))
			case v.EvalResult.Value() != true:
				out = append(out, fmt.Sprint(messages[i].EvalResult.Value()))
			}
		}
		return out
	}
}

// pod makes a pod of "annotation=value" ("@group/annotation=value") and "resource=number" words, the latter
// for container main, or for another as "name:resource=number".
func pod(words string) *v1.Pod {
	p := &v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	p.Spec.Containers = []v1.Container{{Name: "main"}, {Name: "side"}}
	at := map[string]*v1.Container{"main": &p.Spec.Containers[0], "side": &p.Spec.Containers[1]}
	if strings.Contains(words, "init") {
		p.Spec.InitContainers = []v1.Container{{Name: "init"}}
		at["init"] = &p.Spec.InitContainers[0]
	}
	for word := range strings.FieldsSeq(words) {
		key, value, _ := strings.Cut(word, "=")
		if note, is := strings.CutPrefix(key, "@"); is || !strings.Contains(key, "/") {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, note, value)
			continue
		}
		container, name, found := strings.Cut(key, ":")
		if !found {
			container, name = "main", key
		}
		c := at[container]
		if c.Resources.Limits == nil {
			c.Resources.Limits = v1.ResourceList{}
		}
		c.Resources.Limits[v1.ResourceName(name)] = resource.MustParse(value)
	}
	return p
}

// requests are pods of every form, right and wrong; package kube/request's tests say what
// is wrong with them.
var requests = []string{
	"", "cpu=1", "nvidia.com/gpu=2", "nvidia.com/gpu=0", "nvidia.com/mig-1g.5gb=1", "nvidia.com/gpu=1 nvidia.com/gpu-memory=20", "some=annotation",
	"gpu-fraction=0.5", "gpu-fraction=1", "gpu-fraction=1.0", "gpu-fraction=.5", "gpu-fraction=5e-1", "gpu-fraction=+0.5", "gpu-fraction=0", "gpu-fraction=0.0", "gpu-fraction=1.5",
	"gpu-fraction=-0.5", "gpu-fraction=NaN", "gpu-fraction=half", "gpu-fraction=0x1p-2", "gpu-fraction=1_0", "gpu-fraction=.", "gpu-fraction=", "gpu-fraction=0.50000", "gpu-fraction=0.33333", "gpu-fraction=0.5001",
	"gpu-memory=4000", "gpu-memory=0", "gpu-memory=4Gi", "gpu-memory=-1", "gpu-memory=+5", "gpu-memory=99999999999999999999", "gpu-memory=81559", "gpu-memory=81560",
	"gpu-fraction=0.5 gpu-memory=4000", "gpu-fraction=0.5 gpu-fraction-num-devices=2", "gpu-fraction=0.5 gpu-fraction-num-devices=0", "gpu-fraction=0.5 gpu-fraction-num-devices=x", "gpu-fraction-num-devices=2",
	"gpu-fraction=0.5 gpu-fraction-container-name=side", "gpu-fraction=0.5 gpu-fraction-container-name=init", "gpu-fraction=0.5 gpu-fraction-container-name=other", "gpu-fraction-container-name=other",
	"gpu-fraction=0.5 nvidia.com/gpu=1", "gpu-fraction=0.5 side:nvidia.com/mig-1g.5gb=1", "gpu-memory=4000 init:nvidia.com/gpumem=5", "gpu-fraction=0.5 side:volcano.sh/vgpu-number=1",
	"nvidia.com/gpu-memory=6", "nvidia.com/gpu-memory=6 nvidia.com/mig-1g.5gb=1", "nvidia.com/gpu-memory=6 side:nvidia.com/mig-1g.5gb=1", "nvidia.com/gpu-memory=0 nvidia.com/mig-1g.5gb=1",
	"init:nvidia.com/mig-1g.5gb=1 init:nvidia.com/gpumem=3000", "nvidia.com/gpumem=3000 nvidia.com/gpu-memory=3", "nvidia.com/gpucores=30 volcano.sh/vgpu-memory=3000", "nvidia.com/gpu-memory=3 volcano.sh/vgpu-number=1",
	"nvidia.com/gpu.shared=1 nvidia.com/gpu-memory=3", "nvidia.com/gpu.shared=1 nvidia.com/gpumem=3", "nvidia.com/gpu=1 volcano.sh/vgpu-number=1", "nvidia.com/gpu=1 volcano.sh/vgpu-memory=1",
	"nvidia.com/gpu=1 nvidia.com/gpumem=3000", "nvidia.com/gpumem=3000 nvidia.com/gpumem-percentage=50", "volcano.sh/vgpu-memory=3000 volcano.sh/vgpu-memory-percentage=50",
	"nvidia.com/gpumem-percentage=100", "nvidia.com/gpumem-percentage=200", "nvidia.com/gpu=1 nvidia.com/gpumem=1 nvidia.com/gpucores=101", "volcano.sh/vgpu-number=2 volcano.sh/vgpu-cores=200",
	"nvidia.com/gpu-memory=79", "nvidia.com/gpu-memory=80", "nvidia.com/gpu=1 nvidia.com/gpu-memory=80", "side:nvidia.com/gpumem=81559", "side:nvidia.com/gpumem=81560", "init:volcano.sh/vgpu-memory=90000",
	"nvidia.com/gpu=1 nvidia.com/gpucores=30", "volcano.sh/vgpu-number=1 volcano.sh/vgpu-cores=30", "nvidia.com/gpu=1 nvidia.com/gpucores=30 side:nvidia.com/gpucores=10",
	"@berth.dev/checkpoint=on-signal", "@berth.dev/checkpoint=none", "@berth.dev/checkpoint=", "@berth.dev/checkpoint=sometimes", "@berth.dev/checkpoint=on-signal:85", "@berth.dev/checkpoint=on-signal:255",
	"@berth.dev/checkpoint=on-signal:256", "@berth.dev/checkpoint=on-signal:0", "@berth.dev/checkpoint=on-signal:137", "@berth.dev/checkpoint=on-signal:007", "@berth.dev/checkpoint=on-signal:", "@berth.dev/checkpoint=on-signal:x",
	"@berth.dev/checkpoint=30m", "@berth.dev/checkpoint=periodic:30m", "@berth.dev/checkpoint=periodic:", "@berth.dev/checkpoint=periodic:1h30m", "@berth.dev/checkpoint=periodic:0s", "@berth.dev/checkpoint=periodic:500ms",
	"@berth.dev/max-run-time=90m", "@berth.dev/max-run-time=", "@berth.dev/max-run-time=soon", "@berth.dev/max-run-time=90", "@berth.dev/max-run-time=0", "@berth.dev/max-run-time=0m", "@berth.dev/max-run-time=-5m", "@berth.dev/max-run-time=+5m",
	"@berth.dev/max-run-time=1.5h", "@berth.dev/max-run-time=.5h", "@berth.dev/max-run-time=5.h", "@berth.dev/max-run-time=.h", "@berth.dev/max-run-time=1h30m10s", "@berth.dev/max-run-time=2d", "@berth.dev/max-run-time=100us", "@berth.dev/max-run-time=1h;",
}

// The policies and package kube/request say the same of every request.
func TestThePoliciesSayWhatKubeSays(t *testing.T) {
	const largest = 81559
	check := judge(t, admission.Requests(largest))
	warn := judge(t, admission.Warnings())
	faults := 0
	for _, words := range requests {
		t.Run(words, func(t *testing.T) {
			p := pod(words)
			want, got := "", ""
			if err := errors.Join(request.Check(p), request.CheckLimit(p, largest)); err != nil {
				faults++
				want, _, _ = strings.Cut(err.Error(), "\n")
			}
			if said := check(p); len(said) > 0 {
				got = said[0] // the API server tells the first
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-kube +policy):\n%s", admission.RequestsName, diff)
			}
			if want != "" {
				return // what is refused is not read further
			}
			if diff := cmp.Diff(request.Warnings(p), warn(p)); diff != "" {
				t.Errorf("%s (-kube +policy):\n%s", admission.WarningsName, diff)
			}
		})
	}
	if faults < 20 {
		t.Errorf("only %d requests are wrong", faults)
	}
}

// TestThePolicyWarnsOfVisibleDevicesAsKubeDoes: the variable by which a container sees GPUs that the pod does not hold.
func TestThePolicyWarnsOfVisibleDevicesAsKubeDoes(t *testing.T) {
	warn := judge(t, admission.Warnings())
	for _, tt := range []struct {
		words string
		env   []v1.EnvVar
		want  bool
	}{
		{"cpu=1", []v1.EnvVar{{Name: request.VisibleVariable, Value: "all"}}, true},
		{"cpu=1", []v1.EnvVar{{Name: "OTHER", Value: "all"}, {Name: request.VisibleVariable, Value: "0,1"}}, true},
		{"cpu=1", []v1.EnvVar{{Name: request.VisibleVariable, Value: "none"}}, false},
		{"cpu=1", []v1.EnvVar{{Name: request.VisibleVariable, Value: "void"}}, false},
		{"cpu=1", []v1.EnvVar{{Name: request.VisibleVariable}}, false},
		{"cpu=1", []v1.EnvVar{{Name: request.VisibleVariable, ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}, false},
		{"nvidia.com/gpu=1", []v1.EnvVar{{Name: request.VisibleVariable, Value: "all"}}, false},
		{"cpu=1", nil, false},
	} {
		p := pod(tt.words)
		p.Spec.Containers[0].Env = tt.env
		got := warn(p)
		if diff := cmp.Diff(request.Warnings(p), got); diff != "" || slices.Contains(got, request.WarningVisible) != tt.want {
			t.Errorf("%s with %v: warned of %q, want the warning: %t (-kube +policy):\n%s", tt.words, tt.env, got, tt.want, diff)
		}
	}
}

func TestWithoutAKnownGPUNothingIsTooLarge(t *testing.T) {
	if got := judge(t, admission.Requests(0))(pod("nvidia.com/gpu-memory=9999")); len(got) > 0 {
		t.Error(got)
	}
	if err := request.CheckLimit(pod("nvidia.com/gpu-memory=9999"), 0); err != nil {
		t.Error(err)
	}
}

func TestEveryPolicyHasItsBinding(t *testing.T) {
	policy, binding := admission.Devices("somebody")
	for _, p := range append(admission.Policies(1024), admission.Policy{Policy: policy, Binding: binding}, admission.KeepUsers(userPolicy)) {
		if p.Binding.Spec.PolicyName != p.Policy.Name || p.Policy.Name == "" {
			t.Errorf("policy %s has the binding of %s", p.Policy.Name, p.Binding.Spec.PolicyName)
		}
		for _, v := range p.Policy.Spec.Validations {
			if (v.Message == "") == (v.MessageExpression == "") {
				t.Errorf("policy %s: validation %q has no message, or two", p.Policy.Name, v.Expression)
			}
		}
	}
}
