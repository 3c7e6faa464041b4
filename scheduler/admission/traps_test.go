package admission_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/kube/explain"
	"berth.dev/berth/scheduler/admission"
)

// The policy warns of the same objects as explain.Trap.
// rows: NB-43 GS-55 GS-56 AS-12 ML-52
func TestTrapsAreWarnedOf(t *testing.T) {
	says := judgeWrites(t, admission.Traps())
	quota, limits, class, scaler := schema.GroupVersionKind{Version: "v1", Kind: "ResourceQuota"}, schema.GroupVersionKind{Version: "v1", Kind: "LimitRange"},
		schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass"}, schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}
	for _, tt := range []struct {
		name, text string
		kind       schema.GroupVersionKind
		into       any
		want       string
	}{
		{"limits of a quota", `{"spec":{"hard":{"limits.nvidia.com/gpu":"2","requests.nvidia.com/gpu":"2"}}}`, quota, &v1.ResourceQuota{}, explain.WarningQuotaLine},
		{"a bare name in a quota", `{"spec":{"hard":{"nvidia.com/mig-1g.5gb":"2"}}}`, quota, &v1.ResourceQuota{}, explain.WarningQuotaLine},
		{"requests of a quota", `{"spec":{"hard":{"requests.nvidia.com/gpu":"2","limits.cpu":"2"}}}`, quota, &v1.ResourceQuota{}, ""},
		{"a quota of nothing", `{"spec":{}}`, quota, &v1.ResourceQuota{}, ""},
		{"a maximum of containers", `{"spec":{"limits":[{"type":"Container","max":{"nvidia.com/gpu":"4"}}]}}`, limits, &v1.LimitRange{}, explain.WarningLimitRange},
		{"a maximum with a default of none", `{"spec":{"limits":[{"type":"Container","default":{"nvidia.com/gpu":"0"},"max":{"nvidia.com/gpu":"4"}}]}}`, limits, &v1.LimitRange{}, ""},
		{"a default", `{"spec":{"limits":[{"type":"Container","default":{"nvidia.com/gpu":1}}]}}`, limits, &v1.LimitRange{}, explain.WarningLimitRange},
		{"a maximum of pods", `{"spec":{"limits":[{"type":"Pod","max":{"nvidia.com/gpu":"4"}}]}}`, limits, &v1.LimitRange{}, ""},
		{"a maximum of CPUs", `{"spec":{"limits":[{"type":"Container","max":{"cpu":"4"}}]}}`, limits, &v1.LimitRange{}, ""},
		{"a class for all", `{"value":10000,"globalDefault":true}`, class, &schedulingv1.PriorityClass{}, explain.WarningDefault},
		{"a class for all that changes nothing", `{"value":0,"globalDefault":true}`, class, &schedulingv1.PriorityClass{}, ""},
		{"a class", `{"value":10000}`, class, &schedulingv1.PriorityClass{}, ""},
		{"an autoscaler of a model service", `{"spec":{"scaleTargetRef":{"kind":"InferenceService","name":"m"}}}`, scaler, &autoscalingv2.HorizontalPodAutoscaler{}, explain.WarningScale},
		{"an autoscaler of a Deployment", `{"spec":{"scaleTargetRef":{"kind":"Deployment","name":"m"}}}`, scaler, &autoscalingv2.HorizontalPodAutoscaler{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &unstructured.Unstructured{}
			if err := json.Unmarshal([]byte(tt.text), &o.Object); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(tt.text), tt.into); err != nil {
				t.Fatal(err)
			}
			if got := explain.Trap(tt.into); got != tt.want {
				t.Errorf("kube/explain says %q, want %q", got, tt.want)
			}
			got := strings.Join(says(o, nil, tt.kind, tt.kind.GroupVersion().WithResource(strings.ToLower(tt.kind.Kind)+"s")), "; ")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-kube +policy):\n%s", diff)
			}
		})
	}
}

// BenchmarkPolicies is what the warnings of policies cost for a new pod.
func BenchmarkPolicies(b *testing.B) {
	says := judge(b, admission.Warnings())
	p := pod("gpu-fraction=0.5")
	for b.Loop() {
		if got := says(p); len(got) > 0 {
			b.Fatal(got)
		}
	}
}
