package serving

import (
	"cmp"
	"slices"
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

// Children are the objects of a service, or of one of its components.
type Children struct {
	Component  string         // ComponentPredictor or ComponentTransformer of KServe
	Deployment map[string]any // without replicas
	Services   []map[string]any
	Revision   string // hash of the pods' template
	ServerType string // which server it is; "" is not known
	Model      string // where the model is, as the user wrote it

	Transformer *Children // nil is none
}

// part is a component of a service as its objects are made.
type part struct {
	component, name string         // its name is that of its Deployment
	spec            map[string]any // as the user wrote it
	gpus            bool           // its pods hold GPUs
	labels, notes   map[string]any
	pod             map[string]any // the spec of its pods
	container       map[string]any // of these, which answers
}

// ChildName returns the name of a service's Deployment, and of the first of its Services; the other has the service's own name.
func ChildName(service string) string { return service + "-predictor" }

// Build makes the objects of a service: with names, labels, ports, and arguments as KServe's Standard mode makes them, and beside
// the Service NAME-predictor one that is called NAME, which leads to the transformer if there is one. r is nil for containers of the user's own.
// above and below are how far a rollout may go beyond the wanted replicas.
func Build(w *Written, r *Runtime, above, below int) (*Children, error) {
	o := w.object
	labels, notes := w.meta(r)
	pod := w.podSpec(r)
	container, store, kind, model := map[string]any(nil), storage{}, "", ""
	if m := w.Service.Model; m != nil {
		kind, model = serverType(r), m.StorageURI
		container = w.server(r, kind, labels, notes)
		store, _ = storageOf(m.StorageURI)
	} else {
		list, _ := w.predictor["containers"].([]any)
		container = runtime.DeepCopyJSON(list[0].(map[string]any))
		if text(container["name"]) == "" {
			container["name"] = Container
		}
		model = ownStorage(container)
		if store, _ = storageOf(model); store.URI != "" {
			container["env"] = mergeList(container["env"], []any{map[string]any{"name": storageVariable, "value": modelFolder}}, "name")
		}
	}
	containers := append([]any{container}, w.beside(r)...)
	for _, c := range containers {
		c := c.(map[string]any)
		c["env"] = mergeList(c["env"], []any{map[string]any{"name": "INFERENCE_SERVICE_NAME", "value": o.Name}}, "name")
	}
	store.image, store.spec = cmp.Or(w.image, store.image), w.storage
	store.mount(pod, container, o.Annotations[kserve.AnnotationStorageReadonly] == "false", w.credentials)
	pod["containers"] = containers
	if container["readinessProbe"] == nil {
		container["readinessProbe"] = probe(portOf(container))
	}
	names := []string{ChildName(o.Name), o.Name}
	if w.Service.Transformer != nil {
		names = names[:1]
	}
	out, err := w.children(&part{component: kserve.ComponentPredictor, name: ChildName(o.Name), spec: w.predictor, gpus: w.Service.GPUs, labels: labels, notes: notes, pod: pod, container: container}, names, above, below)
	if err != nil {
		return nil, err
	}
	if out.ServerType, out.Model = kind, model; w.Service.Transformer != nil {
		out.Transformer, err = w.buildTransformer(above, below)
	}
	return out, err
}

// children makes the Deployment of a component, and Services of these names that lead to it.
func (w *Written) children(p *part, services []string, above, below int) (out *Children, err error) {
	out = &Children{Component: p.component}
	template := map[string]any{"metadata": map[string]any{"labels": union(p.labels, map[string]any{kserve.LabelApp: "isvc." + p.name}), "annotations": p.notes}, "spec": p.pod}
	if out.Revision, err = hash(template); err != nil {
		return nil, err
	}
	template["metadata"].(map[string]any)["annotations"] = union(p.notes, map[string]any{api.AnnotationServingSpec: out.Revision})
	out.Deployment = w.deployment(p, template, above, below)
	for _, name := range services {
		out.Services = append(out.Services, w.service(name, p))
	}
	return out, nil
}

// left are annotations of a service that are not those of its pods: a change of them must not start a new revision.
var left = []string{
	"kubectl.kubernetes.io/last-applied-configuration", kserve.AnnotationStop, kserve.AnnotationMetric, kserve.AnnotationTarget, kserve.AnnotationDeploymentMode,
	api.AnnotationRollout, api.AnnotationDisruptionBudget, api.AnnotationCanaryLimits, api.AnnotationScaleToZeroAfter, api.AnnotationScaleDownAfter, api.AnnotationIdleAfter, api.AnnotationUser, api.AnnotationUserOf,
}

// meta returns the labels and annotations of all children (predictor.go, buildObjectMeta).
func (w *Written) meta(r *Runtime) (labels, notes map[string]any) {
	labels, notes = w.inherited()
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
	own := map[string]any{api.LabelInferenceService: w.object.Name, kserve.LabelComponent: kserve.ComponentPredictor}
	var runtimeLabels, runtimeNotes map[string]any
	if r != nil {
		runtimeLabels, runtimeNotes = texts(r.spec["labels"]), texts(r.spec["annotations"])
	}
	return union(runtimeLabels, labels, texts(w.predictor["labels"]), own), union(runtimeNotes, notes, texts(w.predictor["annotations"]))
}

// inherited returns the labels and annotations of the service that its children have, too.
func (w *Written) inherited() (labels, notes map[string]any) {
	labels, notes = anys(w.object.Labels), anys(w.object.Annotations)
	for _, key := range left {
		delete(notes, key)
	}
	return labels, notes
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
	base := map[string]any{}
	if r != nil {
		for _, field := range []string{"nodeSelector", "affinity", "tolerations", "volumes", "imagePullSecrets", "schedulerName", "resourceClaims", "hostIPC"} {
			if v := r.spec[field]; v != nil {
				base[field] = v
			}
		}
	}
	return merge(base, ofPods(w.predictor))
}

// ofPods are the fields of a component that are those of a pod's spec, without containers.
func ofPods(component map[string]any) map[string]any {
	out := map[string]any{}
	for field, value := range component {
		if !isOfPredictor(field) {
			out[field] = value
		}
	}
	return out
}

func isOfPredictor(field string) bool {
	return slices.Contains(ofPredictor, field)
}
