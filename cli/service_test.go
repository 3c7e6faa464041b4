package cli_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	"berth.dev/berth/test/golden"
)

// inferenceService is a service of a TensorFlow model, with a condition Ready.
func inferenceService(namespace, name, status, reason, message string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService",
		"metadata": map[string]any{"namespace": namespace, "name": name, "uid": "uid-" + name, "creationTimestamp": at(3 * time.Hour)},
		"spec": map[string]any{"predictor": map[string]any{"minReplicas": int64(0), "maxReplicas": int64(3), "tensorflow": map[string]any{
			"storageUri": "pvc://models/" + name, "resources": map[string]any{"limits": map[string]any{api.ResourceGPU: int64(1)}},
		}}},
		"status": map[string]any{
			"url": "http://" + name + "." + namespace + ".svc.cluster.local", "clusterServingRuntimeName": "kserve-tensorflow-serving",
			"conditions": []any{
				map[string]any{"type": "PredictorReady", "status": status, "reason": reason, "message": message, "lastTransitionTime": at(time.Hour)},
				map[string]any{"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": at(time.Hour)},
			},
		},
	}}
}

// inferenceServices are services in every state.
func inferenceServices() []*unstructured.Unstructured {
	stopped := inferenceService("vision", "off", "False", "Stopped", "the service is stopped; `berth service start off` starts it")
	annotated(kserve.AnnotationStop, "true")(stopped)
	return []*unstructured.Unstructured{
		inferenceService("vision", "mnist", "True", "MinimumReplicasAvailable", "1 of 2 replicas ready; the other waits: no node has a free GPU"),
		inferenceService("vision", "wrong", "False", "ModelLoadFailed", "TensorFlow Serving finds no model in pvc://models/wrong: it reads a SavedModel in a folder that is a number"),
		inferenceService("vision", "idle", "True", "ScaledToZero", "no requests for 5m0s; the next request starts a replica"),
		stopped,
		inferenceService("speech", "asr", "False", "WaitingForGPU", "0 of 1 replica ready: no node has a free GPU"),
	}
}

// serviceStage is a cluster with services, and two replicas of mnist of which one waits.
func serviceStage(t testing.TB) *stage {
	t.Helper()
	ready, waits := pod("vision", "mnist-predictor-a", "gpu-a100-1", api.ResourceGPU, "GPU-gpu-a100-1-0"), pod("vision", "mnist-predictor-b", "", api.ResourceGPU)
	for i, p := range []*v1.Pod{ready, waits} {
		p.Labels[api.LabelInferenceService], p.Annotations[api.AnnotationServingSpec] = "mnist", "0123456789abcdef"
		p.CreationTimestamp = metav1.NewTime(now.Add(time.Duration(i-2) * time.Hour))
	}
	ready.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	waits.Status = v1.PodStatus{Phase: v1.PodPending}
	s := newStage(t, append(lab(), ready, waits)...)
	addServices(t, s, func(*unstructured.Unstructured) {})
	return s
}

// addServices adds the services to a cluster, changed by edit.
func addServices(t testing.TB, s *stage, edit func(*unstructured.Unstructured)) {
	t.Helper()
	for _, u := range inferenceServices() {
		edit(u)
		if err := s.dynamic.Tracker().Create(kserve.InferenceServices, u, u.GetNamespace()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestService(t *testing.T) {
	for _, tt := range []struct{ name, file, args string }{
		{"services of a namespace", "service_list.txt", "service list -n vision"},
		{"services of all, in full", "service_wide.txt", "service ls -A -o wide"},
		{"services as JSON", "service_list.json", "service list -n vision -o json"},
		{"a service of which a replica waits", "service_show.txt", "service show mnist -n vision"},
		{"a service whose model is none", "service_show_wrong.txt", "service show wrong -n vision"},
		{"a manifest", "service_create.yaml", "service create llm -n vision --model hf://org/model --format huggingface --gpus 2 --min 0 --max 2 --env A=b --dry-run -o yaml -- --dtype=half"},
		{"a manifest with a MIG device", "service_create_mig.yaml", "service create iris -n vision --model pvc://models/iris --format onnx --mig 1g.5gb --dry-run -o yaml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			golden.File(t, tt.file, serviceStage(t).ok(strings.Fields(tt.args)...))
		})
	}
}

func TestServiceNamesAndErrors(t *testing.T) {
	s := serviceStage(t)
	if got, want := s.ok("service", "list", "-n", "speech", "-o", "name"), "inferenceservice.serving.kserve.io/asr\n"; got != want {
		t.Errorf("names are %q, want %q", got, want)
	}
	for args, want := range map[string]string{
		"service show mnst -n vision":                                  "there is no model service mnst in namespace vision; did you mean mnist?",
		"service show zzzzzzzz -n speech":                              "existing services: asr",
		"service show x -n empty":                                      "namespace empty, which has none; `berth service create` creates one",
		"service shwo":                                                 "did you mean",
		"service logs asr -n speech":                                   "no server of service speech/asr has started, so there is no log: 0 of 1 replica ready: no node has a free GPU",
		"service predict off -n vision -f testdata/service_list.json":  "service vision/off is stopped; `berth service start off` starts it",
		"service open off -n vision":                                   "service vision/off is stopped; `berth service start off` starts it",
		"service open mnist --port 70000":                              "invalid --port 70000",
		"service predict mnist -n vision":                              `required flag(s) "filename" not set`,
		"service predict mnist -n vision -f /no/such":                  "read the request: open /no/such",
		"service create a --model pvc://a/b":                           "--format is missing",
		"service create a b --format onnx":                             "takes one name, and arguments of the server after --",
		"service create a --format onnx --model pcv://a/b --dry-run":   "pcv:// is not known; did you mean pvc://?",
		"service create a --format onnx --gpus -1":                     "invalid --gpus -1",
		"service create a --format onnx --gpus 1 --mig 1g.5gb":         "exclude each other",
		"service create a --format onnx --min 3 --max 2":               "must be 0 <= min <= max",
		"service create a --format onnx --env A":                       `invalid --env "A"`,
		"service create a --format onnx --dry-run=maybe":               "must be client or server",
		"service create a --format onnx --dry-run -o table":            "must be yaml, json, or name",
		"service create mnist -n vision --format onnx --model pvc://a": "already exists",
	} {
		if _, stderr, code := s.run(append([]string{"berth"}, strings.Fields(args)...)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("berth %s exits with %d and says %q, want %q", args, code, stderr, want)
		}
	}
}

func TestServiceStopStartDelete(t *testing.T) {
	s := serviceStage(t)
	for _, step := range []struct{ args, says string }{
		{"service stop mnist -n vision", "service vision/mnist stopped; its GPUs become free when its replicas have ended\n"},
		{"service stop mnist -n vision", "service vision/mnist is already stopped\n"},
		{"service start mnist -n vision", "service vision/mnist started; `berth service show mnist` shows how far it is\n"},
		{"service start mnist -n vision", "service vision/mnist is not stopped\n"},
		{"service delete mnist wrong -n vision", "service vision/mnist deleted\nservice vision/wrong deleted\n"},
	} {
		if got := s.ok(strings.Fields(step.args)...); !strings.HasPrefix(got, step.says) {
			t.Errorf("berth %s says %q, want %q", step.args, got, step.says)
		}
	}
	if out := s.ok("service", "list", "-n", "vision", "-o", "name"); strings.Contains(out, "mnist") {
		t.Errorf("after it is deleted there is %q", out)
	}
}
