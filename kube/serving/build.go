package serving

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
)

// Container is the name of the container that serves the model.
const Container = "kserve-container"

// httpPort is where a server answers that declares no port, and servicePort where its Services do.
const (
	httpPort    = 8080
	servicePort = 80
)

// Children are the objects of a service.
type Children struct {
	Deployment map[string]any // without replicas
	Services   []map[string]any
	Revision   string // hash of the pods' template
	ServerType string // which server it is; "" is not known
	Model      string // where the model is, as the user wrote it
}

// ChildName returns the name of a service's Deployment, and of the first of its Services; the other has the service's own name.
func ChildName(service string) string { return service + "-predictor" }

// Build makes the objects of a service: with names, labels, ports, and arguments as KServe's Standard mode makes them, and beside
// the Service NAME-predictor one that is called NAME. r is nil for containers of the user's own. above and below are how far a rollout may go
// beyond the wanted replicas.
func Build(w *Written, r *Runtime, above, below int) (*Children, error) {
	o := w.object
	labels, notes := w.meta(r)
	pod := w.podSpec(r)
	container, store, out := map[string]any(nil), storage{}, &Children{}
	if m := w.Service.Model; m != nil {
		out.ServerType, out.Model = serverType(r), m.StorageURI
		container = w.server(r, out.ServerType, labels, notes)
		store, _ = storageOf(m.StorageURI)
	} else {
		list, _ := w.predictor["containers"].([]any)
		container = runtime.DeepCopyJSON(list[0].(map[string]any))
		if text(container["name"]) == "" {
			container["name"] = Container
		}
		out.Model = ownStorage(container)
		if store, _ = storageOf(out.Model); store.uri != "" {
			container["env"] = mergeList(container["env"], []any{map[string]any{"name": storageVariable, "value": modelFolder}}, "name")
		}
	}
	containers := append([]any{container}, w.beside(r)...)
	for _, c := range containers {
		c := c.(map[string]any)
		c["env"] = mergeList(c["env"], []any{map[string]any{"name": "INFERENCE_SERVICE_NAME", "value": o.Name}}, "name")
	}
	store.mount(pod, container, o.Annotations[kserve.AnnotationStorageReadonly] == "false")
	pod["containers"] = containers
	if container["readinessProbe"] == nil {
		container["readinessProbe"] = probe(portOf(container))
	}
	template := map[string]any{"metadata": map[string]any{"labels": union(labels, map[string]any{kserve.LabelApp: "isvc." + ChildName(o.Name)}), "annotations": notes}, "spec": pod}
	var err error
	if out.Revision, err = hash(template); err != nil {
		return nil, err
	}
	notes = union(notes)
	template["metadata"].(map[string]any)["annotations"] = union(notes, map[string]any{api.AnnotationServingSpec: out.Revision})
	out.Deployment = w.deployment(template, labels, notes, above, below)
	for _, name := range []string{ChildName(o.Name), o.Name} {
		out.Services = append(out.Services, w.service(name, labels, notes, container))
	}
	return out, nil
}

// left are annotations of a service that are not those of its pods: a change of them must not start a new revision.
//
//nolint:gochecknoglobals // a constant
var left = []string{
	"kubectl.kubernetes.io/last-applied-configuration", kserve.AnnotationStop, kserve.AnnotationMetric, kserve.AnnotationTarget, kserve.AnnotationDeploymentMode,
	api.AnnotationRollout, api.AnnotationScaleToZeroAfter, api.AnnotationScaleDownAfter, api.AnnotationUser, api.AnnotationUserOf,
}

// meta returns the labels and annotations of all children (predictor.go, buildObjectMeta).
func (w *Written) meta(r *Runtime) (labels, notes map[string]any) {
	o := w.object
	labels, notes = anys(o.Labels), anys(o.Annotations)
	for _, key := range left {
		delete(notes, key)
	}
	if m := w.Service.Model; m != nil {
		if _, own := notes[kserve.AnnotationModelFormat]; !own {
			notes[kserve.AnnotationModelFormat] = m.Format
		}
		switch serverType(r) {
		case "torchserve":
			labels["serviceEnvelope"] = "kserve"
			if strings.HasSuffix(m.Protocol, "v2") {
				labels["serviceEnvelope"] = "kservev2"
			}
		case "mlserver":
			labels["modelClass"] = mlserverClass(m.Format)
		}
	}
	own := map[string]any{api.LabelInferenceService: o.Name, kserve.LabelComponent: kserve.ComponentPredictor}
	var runtimeLabels, runtimeNotes map[string]any
	if r != nil {
		runtimeLabels, runtimeNotes = texts(r.spec["labels"]), texts(r.spec["annotations"])
	}
	return union(runtimeLabels, labels, texts(w.predictor["labels"]), own), union(runtimeNotes, notes, texts(w.predictor["annotations"]))
}

// mlserverClass is the class by which MLServer loads a format.
func mlserverClass(format string) string {
	switch format {
	case "xgboost":
		return "mlserver_xgboost.XGBoostModel"
	case "lightgbm":
		return "mlserver_lightgbm.LightGBMModel"
	case "mlflow":
		return "mlserver_mlflow.MLflowRuntime"
	}
	return "mlserver_sklearn.SKLearnModel"
}

// podSpec returns the spec of the pods without containers: that of the runtime, and over it that of the predictor.
func (w *Written) podSpec(r *Runtime) map[string]any {
	own := map[string]any{}
	for field, value := range w.predictor {
		if !isOfPredictor(field) {
			own[field] = value
		}
	}
	base := map[string]any{}
	if r != nil {
		for _, field := range []string{"nodeSelector", "affinity", "tolerations", "volumes", "imagePullSecrets", "schedulerName", "resourceClaims", "hostIPC"} {
			if v := r.spec[field]; v != nil {
				base[field] = v
			}
		}
	}
	return merge(base, own)
}

func isOfPredictor(field string) bool {
	for _, f := range ofPredictor {
		if f == field {
			return true
		}
	}
	return false
}

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
	if r == nil || r.ServerType != "" {
		if r == nil {
			return ""
		}
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

// portOf is where a container answers.
func portOf(container map[string]any) int64 {
	if ports, _ := container["ports"].([]any); len(ports) > 0 {
		if p, ok := ports[0].(map[string]any); ok {
			return number(p["containerPort"], httpPort)
		}
	}
	return httpPort
}

// probe is KServe's readiness probe, but asked each second: with ten, as there, the first answer after a start is late by as much.
func probe(port int64) map[string]any {
	return map[string]any{
		"tcpSocket": map[string]any{"port": port}, "timeoutSeconds": int64(1), "periodSeconds": int64(1), "successThreshold": int64(1), "failureThreshold": int64(3),
	}
}

// deployment makes the Deployment.
func (w *Written) deployment(template, labels, notes map[string]any, above, below int) map[string]any {
	name := ChildName(w.object.Name)
	app := map[string]any{kserve.LabelApp: "isvc." + name}
	strategy, _ := w.predictor["deploymentStrategy"].(map[string]any)
	if strategy == nil {
		strategy = map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": "25%", "maxUnavailable": "25%"}}
		if w.Service.GPUs {
			strategy["rollingUpdate"] = map[string]any{"maxSurge": int64(above), "maxUnavailable": int64(below)}
		}
	}
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": w.childMeta(name, union(labels, app), notes),
		"spec": map[string]any{"selector": map[string]any{"matchLabels": app}, "strategy": strategy, "template": template},
	}
}

// service makes a Service in front of the pods.
func (w *Written) service(name string, labels, notes map[string]any, container map[string]any) map[string]any {
	ports := []any{}
	declared, _ := container["ports"].([]any)
	for i, p := range declared {
		p, ok := p.(map[string]any)
		if !ok {
			continue
		}
		target := number(p["containerPort"], httpPort)
		out := map[string]any{"port": target, "targetPort": target, "protocol": "TCP"}
		if i == 0 {
			out["port"] = int64(servicePort)
		}
		if s := text(p["protocol"]); s != "" {
			out["protocol"] = s
		}
		if s := text(p["name"]); s != "" {
			out["name"] = s
			if strings.Contains(s, "grpc") || strings.Contains(s, "h2c") {
				out["appProtocol"] = "kubernetes.io/h2c"
			}
		}
		ports = append(ports, out)
	}
	if len(ports) == 0 {
		ports = append(ports, map[string]any{"name": ChildName(w.object.Name), "port": int64(servicePort), "targetPort": int64(httpPort), "protocol": "TCP"})
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": w.childMeta(name, labels, notes),
		"spec": map[string]any{"selector": map[string]any{kserve.LabelApp: "isvc." + ChildName(w.object.Name)}, "ports": ports},
	}
}

// childMeta is the metadata of a child, which goes with the service.
func (w *Written) childMeta(name string, labels, notes map[string]any) map[string]any {
	return map[string]any{
		"name": name, "namespace": w.object.Namespace, "labels": labels, "annotations": union(notes),
		"ownerReferences": []any{map[string]any{
			"apiVersion": kserve.GroupVersion.String(), "kind": kserve.Kind, "name": w.object.Name, "uid": string(w.object.UID), "controller": true, "blockOwnerDeletion": true,
		}},
	}
}

// hash is of what a value says, whatever order its fields have.
func hash(v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("write an object of a service: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), nil
}

// Seal writes the number of replicas into the Deployment, and a hash of the whole object, which shows later changes.
func (c *Children) Seal(replicas int) error {
	c.Deployment["spec"].(map[string]any)["replicas"] = int64(replicas)
	return seal(c.Deployment)
}

// seal writes a hash of an object on it.
func seal(object map[string]any) error {
	mark, err := hash(object)
	if err == nil {
		object["metadata"].(map[string]any)["annotations"].(map[string]any)[api.AnnotationServingSpec] = mark
	}
	return err
}

// SealServices does the same for the Services.
func (c *Children) SealServices() error {
	for _, s := range c.Services {
		if err := seal(s); err != nil {
			return err
		}
	}
	return nil
}

// URL is where a service is reached in the cluster.
func URL(name, namespace, domain string) string {
	if domain == "" {
		domain = "cluster.local"
	}
	return "http://" + name + "." + namespace + ".svc." + domain
}
