package serving

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	"berth.dev/berth/core/serving"
)

// TransformerName returns the name of the Deployment of a service's transformer, and of the Service that leads to it alone.
func TransformerName(service string) string { return service + "-transformer" }

// IsTransformer reports whether labels are those of an object of a transformer.
func IsTransformer(labels map[string]string) bool {
	return labels[kserve.LabelComponent] == kserve.ComponentTransformer
}

// readTransformer reads what stands before the model.
func (w *Written) readTransformer() *serving.Fault {
	if w.transformer == nil {
		return nil
	}
	t, ok := w.transformer.(map[string]any)
	if !ok {
		return invalid("spec.transformer must be an object with containers")
	}
	for _, f := range []struct{ field, do string }{
		{"logger", "remove it; `berth service logs --transformer` prints its log"},
		{"batcher", "remove it"},
		{"autoScaling", "remove it: there are as many replicas as of the predictor, between minReplicas and maxReplicas"},
		{"scaleMetric", "remove it: there are as many replicas as of the predictor, between minReplicas and maxReplicas"},
		{"scaleTarget", "remove it: there are as many replicas as of the predictor, between minReplicas and maxReplicas"},
		{"storageUris", "mount a volume"},
		{fieldCanary, "write it in spec.predictor; each new transformer takes the place of the one before"},
	} {
		if t[f.field] != nil {
			return invalid("spec.transformer.%s is not served; %s", f.field, f.do)
		}
	}
	containers, _ := t["containers"].([]any)
	if len(containers) == 0 {
		return invalid("spec.transformer has no containers; add one with an image that calls the model at the host of its argument --predictor_host")
	}
	out := &serving.Transformer{Min: int(number(t["minReplicas"], 1)), Max: int(number(t["maxReplicas"], 0))}
	for _, c := range containers {
		c, ok := c.(map[string]any)
		if !ok || text(c["image"]) == "" {
			return invalid("spec.transformer.containers: a container has no image; add one")
		}
		out.GPUs = out.GPUs || asksForGPUs(c)
	}
	switch first := containers[0].(map[string]any); {
	case ownStorage(first) != "":
		return invalid("spec.transformer: %s is not served; mount a volume", storageVariable)
	case out.Min < 0:
		return invalid("spec.transformer.minReplicas: %d is less than 0", out.Min)
	case out.Max != 0 && out.Max < out.Min:
		return invalid("spec.transformer.maxReplicas: %d is less than minReplicas, %d; exchange them", out.Max, out.Min)
	}
	out.Max = max(out.Max, out.Min, 1)
	w.Service.Transformer = out
	return nil
}

// buildTransformer makes the objects of the transformer as KServe's Standard mode does (transformer.go, transformer_custom.go), and the
// Service with the name of the service, which leads to it.
func (w *Written) buildTransformer(above, below int) (*Children, error) {
	spec := w.transformer.(map[string]any)
	name, t := TransformerName(w.object.Name), w.Service.Transformer
	labels, notes := w.inherited()
	own := map[string]any{api.LabelInferenceService: w.object.Name, kserve.LabelComponent: kserve.ComponentTransformer}
	labels, notes = union(labels, texts(spec["labels"]), own), union(notes, texts(spec["annotations"]))
	pod := runtime.DeepCopyJSON(ofPods(spec))
	containers := runtime.DeepCopyJSONValue(spec["containers"]).([]any)
	first := containers[0].(map[string]any)
	first["name"] = Container
	for _, arg := range [][2]string{
		{"--model_name", w.object.Name}, {"--predictor_host", ChildName(w.object.Name) + "." + w.object.Namespace}, {"--http_port", fmt.Sprint(httpPort)}, {"--workers", concurrency(spec)},
	} {
		addArgument(first, arg[0], arg[1])
	}
	if first["readinessProbe"] == nil {
		first["readinessProbe"] = probe(portOf(first))
	}
	pod["containers"] = containers
	return w.children(&part{component: kserve.ComponentTransformer, name: name, spec: spec, gpus: t.GPUs, labels: labels, notes: notes, pod: pod, container: first}, []string{name, w.object.Name}, above, below)
}

// concurrency is the number of containerConcurrency as an argument; "" is that there is none.
func concurrency(spec map[string]any) string {
	if n := number(spec["containerConcurrency"], 0); n > 0 {
		return fmt.Sprint(n)
	}
	return ""
}

// addArgument adds an argument and its value to a container that has no such argument, if there is a value.
func addArgument(container map[string]any, name, value string) {
	args, _ := container["args"].([]any)
	has := slices.ContainsFunc(args, func(a any) bool { return text(a) == name || strings.HasPrefix(text(a), name+"=") })
	if value != "" && !has {
		container["args"] = append(args, name, value)
	}
}
