package admission_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/admission"
)

// The resources of a container, right and wrong.
const (
	right = `{"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":1,"cpu":"2"}}`
	wrong = `{"limits":{"nvidia.com/gpu":2},"requests":{"nvidia.com/gpu":1}}`
	loose = `{"requests":{"nvidia.com/mig-1g.5gb":1}}`
)

// workloads are objects with RESOURCES in them, by group, version and kind.
var workloads = map[string]string{
	"kubeflow.org/v1/Notebook":                   `{"spec":{"template":{"spec":{"containers":[{"name":"b","resources":RESOURCES}]}}}}`,
	"kubeflow.org/v1beta1/Notebook":              `{"spec":{"template":{"spec":{"containers":[{"name":"a"}],"initContainers":[{"name":"b","resources":RESOURCES}]}}}}`,
	"kubeflow.org/v1/TFJob":                      `{"spec":{"tfReplicaSpecs":{"PS":{"replicas":1},"Worker":{"template":{"spec":{"containers":[{"name":"b","resources":RESOURCES}]}}}}}}`,
	"kubeflow.org/v1/PyTorchJob":                 `{"spec":{"pytorchReplicaSpecs":{"Master":{"template":{"spec":{"containers":[{"name":"b","resources":RESOURCES}]}}}}}}`,
	"trainer.kubeflow.org/v1alpha1/TrainJob":     `{"spec":{"trainer":{"resourcesPerNode":RESOURCES}}}`,
	"serving.kserve.io/v1beta1/InferenceService": `{"spec":{"predictor":{"model":{"resources":RESOURCES}}}}`,
	"serving.kserve.io/v1beta1/Inferenceservice": `{"spec":{"predictor":{"containers":[{"name":"a"},{"name":"b","resources":RESOURCES}]}}}`,
}

// The policy warns of the same objects as request.UnequalIn finds.
func TestWorkloadsWhosePodsAreRefusedAreWarnedOf(t *testing.T) {
	says := judgeWrites(t, admission.Workloads())
	for name, text := range workloads {
		object := func(resources string) *unstructured.Unstructured {
			o := &unstructured.Unstructured{}
			if err := json.Unmarshal([]byte(strings.ReplaceAll(text, "RESOURCES", resources)), &o.Object); err != nil {
				t.Fatal(err)
			}
			return o
		}
		parts := strings.Split(name, "/")
		kind := schema.GroupVersionKind{Group: parts[0], Version: parts[1], Kind: parts[2]}
		resource := kind.GroupVersion().WithResource(strings.ToLower(parts[2]) + "s")
		for _, tt := range []struct {
			does, now, before string
		}{
			{"is right", right, ""},
			{"requests less than its limit", wrong, ""},
			{"has no limit", loose, ""},
			{"becomes wrong", wrong, right},
			{"was wrong before", wrong, loose},
			{"becomes right", right, wrong},
			{"asks for nothing", "{}", ""},
		} {
			t.Run(parts[2]+" that "+tt.does, func(t *testing.T) {
				now, old := object(tt.now), runtime.Object(nil)
				warns := request.UnequalIn(now.Object)
				if tt.before != "" {
					before := object(tt.before)
					old, warns = before, warns && !request.UnequalIn(before.Object)
				}
				var want []string
				if warns {
					want = []string{request.WarningUnequal}
				}
				if diff := cmp.Diff(want, says(now, old, kind, resource)); diff != "" {
					t.Errorf("(-kube +policy):\n%s", diff)
				}
				if want := slices.Contains([]string{wrong, loose}, tt.now); want != request.UnequalIn(now.Object) {
					t.Errorf("kube/request says %t", !want)
				}
			})
		}
	}
}
