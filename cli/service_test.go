package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

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
	s := newStage(t, append(lab(), ready, waits, revisionOf("mnist", "fedcba9876543210", 1, "pvc://models/mnist-v1", true), revisionOf("mnist", "0123456789abcdef", 2, "pvc://models/mnist", false), revisionOf("off", "aaaabbbbccccdddd", 1, "pvc://models/off", true))...)
	addServices(t, s, func(*unstructured.Unstructured) {})
	return s
}

// revisionOf is a revision of a service in vision; rolled is that all replicas once were of it.
func revisionOf(service, hash string, number int64, model string, rolled bool) *appsv1.ControllerRevision {
	yes := true
	r := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
		Name: service + "-predictor-" + hash, Namespace: "vision", CreationTimestamp: metav1.NewTime(now.Add(-3 * time.Hour)),
		Labels: map[string]string{api.LabelInferenceService: service}, Annotations: map[string]string{api.AnnotationServingSpec: hash},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "serving.kserve.io/v1beta1", Kind: "InferenceService", Name: service, UID: types.UID("uid-" + service), Controller: &yes}},
	}, Revision: number}
	if rolled {
		r.Annotations[api.AnnotationRolledOut] = now.Add(-2 * time.Hour).Format(time.RFC3339)
	}
	quoted, _ := json.Marshal(model)
	r.Data.Raw = fmt.Appendf(nil, `{"spec":{"predictor":{"tensorflow":{"storageUri":%s,"resources":{"limits":{"nvidia.com/gpu":1}}}}}}`, quoted)
	return r
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

func TestServiceRollback(t *testing.T) {
	s := serviceStage(t)
	for _, args := range []string{"service rollback mnist -n vision", "service rollback mnist -n vision --to 2", "service rollback mnist -n vision --to fedc"} {
		back := s.ok(strings.Fields(args)...)
		revision := "1 (fedcba98)"
		if strings.HasSuffix(args, "2") {
			revision = "2 (01234567)"
		}
		want := "service vision/mnist goes back to revision " + revision + "\n  `berth service show mnist` shows how far it is; if the service is applied from files, change them too\n"
		if back != want {
			t.Errorf("berth %s says %q, want %q", args, back, want)
		}
		u, err := s.dynamic.Resource(kserve.InferenceServices).Namespace("vision").Get(t.Context(), "mnist", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		model, _, _ := unstructured.NestedString(u.Object, "spec", "predictor", "tensorflow", "storageUri")
		if most, _, _ := unstructured.NestedInt64(u.Object, "spec", "predictor", "maxReplicas"); most != 3 || (model == "pvc://models/mnist-v1") != strings.HasPrefix(revision, "1") {
			t.Errorf("after berth %s the model is %s, and maxReplicas %d", args, model, most)
		}
	}
	for args, want := range map[string]string{
		"service rollback mnist -n vision --to 1":   "service vision/mnist already has the spec of revision 1; what differs are labels, annotations, or the runtime",
		"service rollback mnist -n vision --to 7":   "service vision/mnist has no revision 7; there are 2 (01234567), 1 (fedcba98)",
		"service rollback mnist -n vision --to fed": "has no revision fed",
		"service rollback off -n vision":            "service vision/off has one revision, which is the current one",
		"service rollback idle -n vision":           "no revisions are kept of service vision/idle: `berth controller` keeps them",
		"service rollback mnst -n vision":           "did you mean mnist?",
	} {
		if _, stderr, code := s.run(append([]string{"berth"}, strings.Fields(args)...)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("berth %s exits with %d and says %q, want %q", args, code, stderr, want)
		}
	}
}

// A status that is written between the read of a service and the write of its spec costs one more try; another spec ends the command.
func TestServiceRollbackGoesOnWhenTheStatusHasChanged(t *testing.T) {
	for _, tt := range []struct {
		name       string
		generation int64 // that the service has once its write was refused
		want       string
	}{
		{"the status was written", 0, "service vision/mnist goes back to revision 1 "},
		{"the spec was written", 7, "service vision/mnist has changed in the meantime; look at it and try again"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, refused := serviceStage(t), 0
			s.dynamic.PrependReactor("patch", "inferenceservices", func(clienttesting.Action) (bool, runtime.Object, error) {
				if refused++; refused > 1 {
					return false, nil, nil
				}
				is, err := s.dynamic.Tracker().Get(kserve.InferenceServices, "vision", "mnist")
				if err == nil {
					is.(*unstructured.Unstructured).SetGeneration(tt.generation)
					err = s.dynamic.Tracker().Update(kserve.InferenceServices, is, "vision")
				}
				if err != nil {
					t.Error(err)
				}
				return true, nil, apierrors.NewConflict(kserve.InferenceServices.GroupResource(), "mnist", errors.New("the object has been modified"))
			})
			if out, stderr, _ := s.run("berth", "service", "rollback", "mnist", "-n", "vision"); !strings.Contains(out+stderr, tt.want) {
				t.Errorf("it says %q and %q, want %q", out, stderr, tt.want)
			}
		})
	}
}

// canaryStage is serviceStage with a canary of mnist, whose newest revision answers a fifth of the requests.
func canaryStage(t testing.TB, reason, message string) *stage {
	t.Helper()
	s := newStage(t, append(lab(), revisionOf("mnist", "fedcba9876543210", 1, "pvc://models/mnist-v1", true), revisionOf("mnist", "0123456789abcdef", 2, "pvc://models/mnist", false))...)
	addServices(t, s, func(u *unstructured.Unstructured) {
		if u.GetName() != "mnist" {
			return
		}
		set := func(value any, fields ...string) {
			if err := unstructured.SetNestedField(u.Object, value, fields...); err != nil {
				t.Fatal(err)
			}
		}
		set(int64(20), "spec", "predictor", "canaryTrafficPercent")
		set([]any{
			map[string]any{"type": "Canary", "status": "True", "reason": reason, "message": message, "lastTransitionTime": at(time.Hour)},
			map[string]any{"type": "Ready", "status": "True", "reason": reason, "message": "1 of 1 replica ready; " + message, "lastTransitionTime": at(time.Hour)},
		}, "status", "conditions")
		set([]any{
			map[string]any{"revisionName": "mnist-predictor-0123456789abcdef", "latestRevision": true, "percent": int64(20), "tag": "latest", "answers": int64(41), "errors": int64(1), "p95": "120ms"},
			map[string]any{"revisionName": "mnist-predictor-fedcba9876543210", "latestRevision": false, "percent": int64(80), "tag": "prev", "answers": int64(165), "errors": int64(0), "p95": "95ms"},
		}, "status", "components", "predictor", "traffic")
	})
	return s
}

func TestServicePromote(t *testing.T) {
	s := canaryStage(t, "Canary", "the new revision gets 20% of the requests")
	golden.File(t, "service_show_canary.txt", s.ok("service", "show", "mnist", "-n", "vision"))
	const says = "the newest revision of service vision/mnist takes the place of the one before\n  `berth service show mnist` shows how far it is; if the service is applied from files, remove canaryTrafficPercent there too\n"
	share := func(s *stage) (percent, least int64, has bool) {
		u, err := s.dynamic.Resource(kserve.InferenceServices).Namespace("vision").Get(t.Context(), "mnist", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		percent, has, _ = unstructured.NestedInt64(u.Object, "spec", "predictor", "canaryTrafficPercent")
		least, _, _ = unstructured.NestedInt64(u.Object, "spec", "predictor", "maxReplicas")
		return percent, least, has
	}
	if got := s.ok("service", "promote", "mnist", "-n", "vision"); got != says {
		t.Errorf("it says %q", got)
	}
	if percent, most, has := share(s); has || most != 3 {
		t.Errorf("after it is promoted, canaryTrafficPercent is %d, and maxReplicas %d", percent, most)
	}
	bad := canaryStage(t, "CanaryBackedOut", "the new revision was backed out and gets no requests: 4 of its 20 answers were errors")
	for args, want := range map[string]string{
		"service promote mnist -n vision": "service vision/mnist: the new revision was backed out and gets no requests: 4 of its 20 answers were errors. To end the canary, use `berth service rollback mnist`; to promote it all the same, add --force",
		"service promote wrong -n vision": "service vision/wrong has no canary, as spec.predictor.canaryTrafficPercent is not set",
		"service promote mnst -n vision":  "did you mean mnist?",
		"service promote":                 "accepts 1 arg(s), received 0",
	} {
		if _, stderr, code := bad.run(append([]string{"berth"}, strings.Fields(args)...)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("berth %s exits with %d and says %q, want %q", args, code, stderr, want)
		}
	}
	if got := bad.ok("service", "promote", "mnist", "-n", "vision", "--force"); got != says {
		t.Errorf("with --force it says %q", got)
	}
	back := canaryStage(t, "Canary", "")
	if got := back.ok("service", "rollback", "mnist", "-n", "vision"); !strings.HasPrefix(got, "service vision/mnist goes back to revision 1 ") {
		t.Errorf("a rollback says %q", got)
	}
	if percent, _, has := share(back); has {
		t.Errorf("after a rollback canaryTrafficPercent is %d", percent)
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
