package serving

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/serving"
	"berth.dev/berth/kube/request"
)

// frameworks are the blocks of a predictor that stand for model with that format, and the protocol that KServe gives them;
// "" is none (inference_service_defaults.go).
var frameworks = map[string]string{
	"sklearn": "", "xgboost": "", "tensorflow": "", "pytorch": "", "triton": "v2", "onnx": "v2", "huggingface": "v2", "pmml": "", "lightgbm": "", "paddle": "",
}

// ofPredictor are the fields of a predictor that are not those of a pod's spec.
//
//nolint:gochecknoglobals // a constant
var ofPredictor = slices.Concat(slices.Collect(maps.Keys(frameworks)), []string{
	"model", "containers", "minReplicas", "maxReplicas", "scaleTarget", "scaleMetric", "scaleMetricType", "autoScaling", "containerConcurrency", "timeout",
	fieldCanary, "logger", "batcher", "labels", "annotations", "deploymentStrategy", "workerSpec", "name", "storageUris", "storageContainerName", "confidential",
})

// mostConcurrency is the most that containerConcurrency may be.
const mostConcurrency = 1 << 20

// Written is an InferenceService as it is written, with what is read of it.
type Written struct {
	Service     serving.Service
	object      *kserve.InferenceService
	predictor   map[string]any
	transformer any            // as it is written; nil is none
	container   map[string]any // of the model, without the fields that are not a container's; nil with containers of the user's own
	version     string         // runtimeVersion

	credentials *Credentials // of the download; nil is none
	image       string       // that downloads; "" is KServe's
	storage     *storageSpec // of the model; nil is none
}

// Of reads an InferenceService. A fault is why it cannot run; what could be read is there all the same.
func Of(o *kserve.InferenceService) (*Written, *serving.Fault) {
	w := &Written{object: o}
	w.Service = serving.Service{Namespace: o.Namespace, Name: o.Name, Stopped: o.Annotations[kserve.AnnotationStop] == "true", Rollout: serving.RolloutWait}
	spec := map[string]any{}
	if err := utiljson.Unmarshal(o.Spec.Raw, &spec); len(o.Spec.Raw) > 0 && err != nil {
		return w, invalid("spec cannot be read: %v", err)
	}
	w.predictor, _ = spec["predictor"].(map[string]any)
	w.transformer = spec["transformer"]
	for _, check := range []func() *serving.Fault{func() *serving.Fault { return unserved(o, spec, w.predictor) }, w.readScale, w.readRollout, w.readBudget, w.readCanary, w.readModel, w.readTransformer} {
		if fault := check(); fault != nil {
			return w, fault
		}
	}
	return w, nil
}

func invalid(format string, args ...any) *serving.Fault {
	return &serving.Fault{Reason: serving.FaultSpec, Message: fmt.Sprintf(format, args...)}
}

// unserved names the first thing that Berth does not serve.
func unserved(o *kserve.InferenceService, spec, predictor map[string]any) *serving.Fault {
	switch mode := o.Annotations[kserve.AnnotationDeploymentMode]; mode {
	case "", "Standard", "RawDeployment":
	default:
		return invalid("deploymentMode %s is not served: Berth runs InferenceServices as Deployments, and scales them to zero without Knative; remove the annotation %s", mode, kserve.AnnotationDeploymentMode)
	}
	if predictor == nil {
		return invalid("spec.predictor is missing; add a model")
	}
	if spec["explainer"] != nil {
		return invalid("spec.explainer is not served; remove it, or run it as a separate Deployment")
	}
	for _, f := range []struct{ field, do string }{
		{"workerSpec", "a model on several nodes needs KServe or a JobSet; use more GPUs of one node"},
		{"logger", "remove it; the server's log is in `berth service logs`"},
		{"batcher", "remove it, and use the batching of the server"},
		{"autoScaling", "remove it, and set scaleMetric, such as concurrency or queue-depth, and scaleTarget"},
		{"storageUris", "use storageUri with one model"},
	} {
		if v := predictor[f.field]; v != nil {
			return invalid("spec.predictor.%s is not served; %s", f.field, f.do)
		}
	}
	return nil
}

// readScale reads how many replicas are wanted. As KServe, a predictor has one replica if it says nothing; unlike its
// raw mode, 0 is 0.
func (w *Written) readScale() *serving.Fault {
	s := &w.Service.Scale
	*s = serving.Scale{Min: 1, Metric: serving.ByConcurrency, Target: serving.DefaultTarget, IdleAfter: serving.DefaultIdleAfter, DownAfter: serving.DefaultDownAfter}
	s.Min, s.Max = int(number(w.predictor["minReplicas"], 1)), int(number(w.predictor["maxReplicas"], 0))
	if s.Max != 0 && s.Max < s.Min {
		return invalid("spec.predictor.maxReplicas: %d is less than minReplicas, %d; exchange them", s.Max, s.Min)
	}
	s.Max = max(s.Max, s.Min, 1)
	notes := w.object.Annotations
	metric, _ := w.predictor["scaleMetric"].(string)
	if metric == "" {
		metric = notes[kserve.AnnotationMetric]
	}
	if metric != "" && !slices.Contains(serving.Metrics(), metric) {
		return unknownMetric(metric)
	}
	s.Metric = cmp.Or(serving.Metric(metric), s.Metric)
	s.Target = s.Metric.Target()
	if v := w.predictor["containerConcurrency"]; v != nil {
		n, whole := v.(int64)
		if !whole || n < 0 || n > mostConcurrency {
			return invalid("spec.predictor.containerConcurrency: %v is not a number of requests; write a whole number from 0, which is any number, to %d", v, mostConcurrency)
		}
		w.Service.Concurrency = int(n)
	}
	if n := w.Service.Concurrency; n > 0 && s.Metric == serving.ByConcurrency {
		s.Target = float64(n)
	}
	target := number(w.predictor["scaleTarget"], 0)
	if text := notes[kserve.AnnotationTarget]; target == 0 && text != "" {
		target, _ = strconv.ParseInt(text, 10, 32)
	}
	if target > 0 {
		s.Target = float64(target)
	}
	for key, to := range map[string]*time.Duration{api.AnnotationScaleToZeroAfter: &s.IdleAfter, api.AnnotationScaleDownAfter: &s.DownAfter} {
		if text, ok := notes[key]; ok {
			d, err := time.ParseDuration(text)
			if err != nil || d < 0 {
				return invalid("annotation %s: %q is not a duration; write one such as 10m", key, text)
			}
			*to = d
		}
	}
	return nil
}

// unknownMetric is the fault of a metric that replicas are not counted by.
func unknownMetric(metric string) *serving.Fault {
	names := serving.Metrics()
	if near := gpu.NearestWord(metric, names); near != "" && metric != "cpu" && metric != "memory" { // which are KServe's
		return invalid("spec.predictor.scaleMetric %s is not served; did you mean %s?", metric, near)
	}
	return invalid("spec.predictor.scaleMetric %s is not served; use %s or %s: what a GPU does is not seen in CPU or memory", metric, strings.Join(names[:len(names)-1], ", "), names[len(names)-1])
}

// readRollout reads how revisions follow each other.
func (w *Written) readRollout() *serving.Fault {
	text := w.object.Annotations[api.AnnotationRollout]
	switch {
	case text == "":
	case slices.Contains(serving.Rollouts(), text):
		w.Service.Rollout = serving.Rollout(text)
	default:
		return invalid("annotation %s: %q is not a rollout; use %s or %s", api.AnnotationRollout, text, serving.RolloutWait, serving.RolloutStopFirst)
	}
	return nil
}

// readBudget reads whether any number of replicas may be evicted at once.
func (w *Written) readBudget() *serving.Fault {
	text := w.object.Annotations[api.AnnotationDisruptionBudget]
	if w.Service.Unprotected = text == "none"; text != "" && text != "none" {
		return invalid("annotation %s: %q is not a valid value; use none, or write a PodDisruptionBudget, which takes the place of Berth's", api.AnnotationDisruptionBudget, text)
	}
	return nil
}

// readModel reads the model, or the containers.
func (w *Written) readModel() *serving.Fault {
	var blocks []string
	for _, name := range slices.Sorted(maps.Keys(w.predictor)) {
		if _, is := frameworks[name]; is || name == "model" {
			blocks = append(blocks, name)
		}
	}
	containers, _ := w.predictor["containers"].([]any)
	switch {
	case len(blocks) > 1:
		return invalid("spec.predictor has %s and %s; keep one", blocks[0], blocks[1])
	case len(blocks) == 0 && len(containers) == 0:
		return w.nothing()
	case len(blocks) == 0:
		return w.ownContainers(containers)
	}
	block, ok := w.predictor[blocks[0]].(map[string]any)
	if !ok {
		return invalid("spec.predictor.%s must be an object", blocks[0])
	}
	m := &serving.Model{Format: blocks[0], Protocol: frameworks[blocks[0]]}
	if blocks[0] == "model" {
		format, _ := block["modelFormat"].(map[string]any)
		m.Format, m.Protocol = text(format["name"]), ""
		if m.Version = text(format["version"]); m.Format == "" {
			return invalid("spec.predictor.model.modelFormat.name is missing; write one such as tensorflow")
		}
		if m.Format == "triton" || m.Format == "vllm" {
			m.Protocol = "v2"
		}
	}
	if p := text(block["protocolVersion"]); p != "" {
		m.Protocol = p
	}
	m.Runtime, m.StorageURI, w.version = text(block["runtime"]), text(block["storageUri"]), text(block["runtimeVersion"])
	w.container = maps.Clone(block)
	for _, field := range []string{"modelFormat", "storageUri", "storage", "runtime", "runtimeVersion", "protocolVersion"} {
		delete(w.container, field)
	}
	w.Service.Model, w.Service.GPUs = m, asksForGPUs(w.container)
	if storage := block["storage"]; storage != nil {
		return w.readStorage("spec.predictor."+blocks[0]+".storage", storage, m)
	}
	_, fault := storageOf(m.StorageURI)
	return fault
}

// nothing is the fault of a predictor without a model.
func (w *Written) nothing() *serving.Fault {
	for _, name := range slices.Sorted(maps.Keys(w.predictor)) {
		if near := gpu.NearestWord(name, slices.Collect(maps.Keys(frameworks))); near != "" && !slices.Contains(ofPredictor, name) {
			return invalid("spec.predictor has no model; did you mean %s by %s?", near, name)
		}
	}
	return invalid("spec.predictor has no model; add model, a framework such as tensorflow, or containers")
}

// ownContainers reads a predictor with containers of the user's own. The model's place is in the variable STORAGE_URI of the first.
func (w *Written) ownContainers(containers []any) *serving.Fault {
	for _, c := range containers {
		c, ok := c.(map[string]any)
		if !ok || text(c["image"]) == "" {
			return invalid("spec.predictor.containers: a container has no image; add one")
		}
		w.Service.GPUs = w.Service.GPUs || asksForGPUs(c)
	}
	_, fault := storageOf(ownStorage(containers[0].(map[string]any)))
	return fault
}

// ownStorage is the value of STORAGE_URI of a container.
func ownStorage(c map[string]any) string {
	env, _ := c["env"].([]any)
	for _, e := range env {
		if e, ok := e.(map[string]any); ok && e["name"] == storageVariable {
			return text(e["value"])
		}
	}
	return ""
}

// asksForGPUs reports whether a container asks for GPUs of any kind.
func asksForGPUs(container map[string]any) bool {
	raw, err := json.Marshal(map[string]any{"resources": container["resources"]})
	if err != nil {
		return false
	}
	var c corev1.Container
	if err := json.Unmarshal(raw, &c); err != nil {
		return false
	}
	return request.AsksForGPUs(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}})
}

func text(v any) string { s, _ := v.(string); return s }

// number is a whole number of decoded JSON, or what stands for a missing one.
func number(v any, missing int64) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case float64:
		return int64(v)
	}
	return missing
}
