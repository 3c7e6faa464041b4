package controlplane

import (
	"context"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/scheduling"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/request"
)

// request is a write of a pod, or of a binding with "pods/binding".
func attributes(resource string, object, old runtime.Object, who string) admission.Attributes {
	operation := admission.Create
	if old != nil {
		operation = admission.Update
	}
	name, sub, _ := strings.Cut(resource, "/")
	return admission.NewAttributesRecord(object, old, core.Kind("Pod").WithVersion("v1"), "d", "p", core.Resource(name).WithVersion("v1"), sub, operation, nil, false, &user.DefaultInfo{Name: who})
}

// pod has one container, which asks for so much of a resource, and annotations
// given as pairs.
func pod(name string, n int64, notes ...string) *core.Pod {
	p := &core.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "d"}, Spec: core.PodSpec{Containers: []core.Container{{Name: "main"}}}}
	if name != "" {
		p.Spec.Containers[0].Resources.Limits = core.ResourceList{core.ResourceName(name): *resource.NewQuantity(n, resource.DecimalSI)}
	}
	for i := 0; i+1 < len(notes); i += 2 {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, notes[i], notes[i+1])
	}
	return p
}

func binding(devices string) *core.Binding {
	return &core.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{api.AnnotationDevices: devices}}}
}

func TestTheGuard(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{
		api.AnnotationInventory: `[{"index":0,"uuid":"GPU-0","product":"Tesla T4","memoryBytes":16106127360,"healthy":true}]`,
	}}}
	const forged = "only Berth's scheduler writes it"
	given := pod("nvidia.com/gpu", 1, api.AnnotationDevices, "{}")
	for _, tt := range []struct {
		name    string
		request admission.Attributes
		want    string // of the refusal; "" is none
	}{
		{"a plain pod", attributes("pods", pod("cpu", 1), nil, "u"), ""},
		{"a pod with a GPU", attributes("pods", pod("nvidia.com/gpu", 1), nil, "u"), ""},
		{"a forged pod", attributes("pods", given, nil, "u"), forged},
		{"not even the scheduler makes pods with devices", attributes("pods", given, nil, "s"), forged},
		{"a pod that keeps its devices", attributes("pods", given, given, "u"), ""},
		{"a pod that loses them", attributes("pods", pod("nvidia.com/gpu", 1), given, "u"), forged},
		{"a pod that gets others", attributes("pods", pod("nvidia.com/gpu", 1, api.AnnotationDevices, "{1}"), given, "u"), forged},
		{"by a subresource", attributes("pods/status", given, pod("nvidia.com/gpu", 1), "u"), forged},
		{"the scheduler binds", attributes("pods/binding", binding("{}"), nil, "s"), ""},
		{"somebody else binds", attributes("pods/binding", binding("{}"), nil, "u"), forged},
		{"somebody else binds without devices", attributes("pods/binding", &core.Binding{}, nil, "u"), ""},
		{"by the old resource", attributes("bindings", binding("{}"), nil, "u"), forged},
		{"another kind", attributes("nodes", &core.Node{}, nil, "u"), ""},
		{"a fraction", attributes("pods", pod("", 0, api.AnnotationKAIFraction, "0.5"), nil, "u"), ""},
		{"a fraction that is none", attributes("pods", pod("", 0, api.AnnotationKAIFraction, "2"), nil, "u"), "is not a part of one GPU"},
		{"more memory than there is", attributes("pods", pod("nvidia.com/gpu-memory", 16), nil, "u"), "the largest has 15 GiB"},
		{"as much as there is", attributes("pods", pod("nvidia.com/gpu-memory", 15), nil, "u"), ""},
		{"what is there already is not looked at", attributes("pods", pod("nvidia.com/gpu-memory", 16), pod("nvidia.com/gpu-memory", 16), "u"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGuard("s", false)
			g.largest.Handler().OnAdd(node, true)
			err := g.Validate(t.Context(), tt.request, nil)
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if err := newGuard("", false).Validate(t.Context(), tt.request, nil); err != nil {
				t.Errorf("without a scheduler: %v", err)
			}
		})
	}
}

func TestPodsWithGPUsTolerateTheTaintIfTheyAreTo(t *testing.T) {
	for _, tt := range []struct {
		name     string
		tolerate bool
		pod      *core.Pod
		want     int
	}{
		{"not by default", false, pod("nvidia.com/gpu", 1), 0},
		{"a whole GPU", true, pod("nvidia.com/gpu", 1), 1},
		{"memory", true, pod("nvidia.com/gpu-memory", 1), 1},
		{"a fraction", true, pod("", 0, api.AnnotationKAIFraction, "0.5"), 1},
		{"no GPU", true, pod("cpu", 1), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := newGuard("s", tt.tolerate).Admit(context.Background(), attributes("pods", tt.pod, nil, "u"), nil); err != nil {
				t.Fatal(err)
			}
			if n := len(tt.pod.Spec.Tolerations); n != tt.want {
				t.Errorf("%d tolerations, want %d", n, tt.want)
			}
		})
	}
}

func TestTrapsAreWarnedOf(t *testing.T) {
	gpus := core.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}
	for _, tt := range []struct {
		name   string
		object runtime.Object
		want   string
	}{
		{"a line that counts nothing", &core.ResourceQuota{Spec: core.ResourceQuotaSpec{Hard: core.ResourceList{"limits.nvidia.com/gpu": resource.MustParse("4")}}}, explain.WarningQuotaLine},
		{"GPUs for every container", &core.LimitRange{Spec: core.LimitRangeSpec{Limits: []core.LimitRangeItem{{Type: core.LimitTypeContainer, Max: gpus}}}}, explain.WarningLimitRange},
		{"a class for all pods", &scheduling.PriorityClass{Value: 1, GlobalDefault: true}, explain.WarningDefault},
		{"an autoscaler of a model service", &autoscaling.HorizontalPodAutoscaler{Spec: autoscaling.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscaling.CrossVersionObjectReference{Kind: "InferenceService"}}}, explain.WarningScale},
		{"a pod", pod("nvidia.com/gpu", 1), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := trap(attributes("any", tt.object, nil, "u")); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// told collects warnings.
type told []string

func (t *told) AddWarning(_, text string) { *t = append(*t, text) }

func TestPodsAreWarnedOf(t *testing.T) {
	seeing := func(p *core.Pod, value string) *core.Pod {
		p.Spec.Containers[0].Env = []core.EnvVar{{Name: request.VisibleVariable, Value: value}}
		return p
	}
	for _, tt := range []struct {
		name string
		pod  *core.Pod
		want []string
	}{
		{"one that sees GPUs which it does not hold", seeing(pod("cpu", 1), "all"), []string{request.WarningVisible}},
		{"one that sees those that it holds", seeing(pod("nvidia.com/gpu", 1), "all"), nil},
		{"one that wants to see none", seeing(pod("cpu", 1), "void"), nil},
		{"one that does not say how it saves its work", pod("nvidia.com/gpu", 1, api.AnnotationCheckpoint, "sometimes"), []string{request.WarningSaves}},
		{"one that does not say how long it runs", pod("nvidia.com/gpu", 1, api.AnnotationMaxRunTime, "soon"), []string{request.WarningRunTime}},
		{"one that does", pod("nvidia.com/gpu", 1, api.AnnotationMaxRunTime, "1h30m"), nil},
		{"a plain one", pod("nvidia.com/gpu", 1), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got told
			err := newGuard("s", false).Validate(warning.WithWarningRecorder(t.Context(), &got), attributes("pods", tt.pod, nil, "u"), nil)
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("warned of %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// BenchmarkGuard is what one write of a pod costs.
func BenchmarkGuard(b *testing.B) {
	g := newGuard("s", false)
	given := pod("nvidia.com/gpu", 1, api.AnnotationDevices, "{}")
	writes := []admission.Attributes{
		attributes("pods", pod("nvidia.com/gpu", 1), nil, "u"), attributes("pods/binding", binding("{}"), nil, "s"), attributes("pods/status", given, given, "u"),
	}
	for b.Loop() {
		for _, a := range writes {
			if err := g.Validate(b.Context(), a, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
}
