package serving

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// server returns the container that serves the model: the runtime's, and over it the model's.
func (w *Written) server(r *Runtime, kind string, labels, notes map[string]any) map[string]any {
	base := map[string]any{}
	for _, c := range containersOf(r) {
		if c["name"] == Container {
			base = c
		}
	}
	m := w.Service.Model
	c := merge(base, w.container)
	c["name"] = Container
	add := func(name, value string) {
		env, _ := c["env"].([]any)
		for _, e := range env {
			if e, ok := e.(map[string]any); ok && e["name"] == name {
				return
			}
		}
		c["env"] = append(env, map[string]any{"name": name, "value": value})
	}
	switch {
	case kind == "torchserve":
		protocol := m.Protocol
		if protocol == "" {
			protocol = "v1"
		}
		add("PROTOCOL_VERSION", protocol)
	case kind == "mlserver" && m.StorageURI == "":
		add("MLSERVER_LOAD_MODELS_AT_STARTUP", "false")
	case kind == "mlserver":
		add("MLSERVER_MODEL_NAME", w.object.Name)
		add("MLSERVER_MODEL_URI", modelFolder)
	}
	fill(c, w.object, labels, notes)
	c["image"] = image(text(c["image"]), w.version, kind, asksForGPUs(c))
	return c
}

// image is the image of a server, as KServe chooses it (UpdateImageTag): with the version that is asked for, else, of those that have one, the
// variant for GPUs where there are some. A digest stays.
func image(image, version, kind string, gpus bool) string {
	at := strings.LastIndexByte(image, ':')
	if at < strings.LastIndexByte(image, '/') {
		at = -1
	}
	switch {
	case strings.Contains(image, "@sha256:"):
	case version != "" && at < 0:
		return image + ":" + version
	case version != "":
		return image[:at] + ":" + version
	case at >= 0 && gpus && (kind == "tensorflow-serving" || kind == "torchserve" || kind == "huggingfaceserver") && !strings.HasSuffix(image, "-gpu"):
		return image + "-gpu"
	}
	return image
}

// serverType is which server a runtime runs: by its annotation, else by its name, if that is one of KServe's.
func serverType(r *Runtime) string {
	switch {
	case r == nil:
		return ""
	case r.ServerType != "":
		return r.ServerType
	}
	for _, kind := range []string{"mlserver", "torchserve", "tritonserver", "tensorflow-serving", "huggingfaceserver", "vllmserver"} {
		if r.Name == "kserve-"+kind {
			return kind
		}
	}
	return ""
}

// containersOf returns the containers of a runtime.
func containersOf(r *Runtime) (out []map[string]any) {
	if r == nil {
		return nil
	}
	list, _ := r.spec["containers"].([]any)
	for _, c := range list {
		if c, ok := c.(map[string]any); ok {
			out = append(out, c)
		}
	}
	return out
}

// beside returns the containers that run beside the server.
func (w *Written) beside(r *Runtime) (out []any) {
	for _, c := range containersOf(r) {
		if c["name"] != Container {
			out = append(out, runtime.DeepCopyJSON(c))
		}
	}
	list, _ := w.predictor["containers"].([]any)
	if w.Service.Model == nil && len(list) > 0 {
		list = list[1:]
	}
	for _, c := range list {
		if c, ok := c.(map[string]any); ok {
			out = append(out, runtime.DeepCopyJSON(c))
		}
	}
	return out
}
