package can

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/api/kserve"
	"berth.dev/berth/kube/serving"
)

// Server reads a ServingRuntime or a ClusterServingRuntime.
func Server(o *unstructured.Unstructured) (*serving.Runtime, error) {
	r := &kserve.ServingRuntime{}
	if err := into(o.Object, r); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return serving.RuntimeOf(&r.ObjectMeta, r.Spec, o.GetKind() == kserve.KindClusterRuntime)
}

// ofService reads the replicas of an InferenceService, with the container of the one of servers that its model gets. Where these are
// not known, what the service itself says of its container is judged.
func ofService(o *unstructured.Unstructured, servers []*serving.Runtime) (*Workload, error) {
	is := &kserve.InferenceService{}
	if err := into(o.Object, is); err != nil {
		return nil, fmt.Errorf("read InferenceService %s: %w", o.GetName(), err)
	}
	written, fault := serving.Of(is)
	if fault != nil {
		return &Workload{Never: "the service cannot run: " + fault.Message}, nil
	}
	var server *serving.Runtime
	if servers != nil {
		if server, fault = serving.Choose(written, servers); fault != nil {
			return &Workload{Never: "the service cannot run: " + fault.Message}, nil
		}
	}
	children, err := serving.Build(written, server, 1, 0)
	if err != nil {
		return nil, err
	}
	w := &Workload{}
	template, err := podsOf(o, children)
	if err != nil {
		return nil, err
	}
	s := &written.Service
	switch {
	case s.Stopped:
		w.Later = "the service is stopped; `berth service start` starts it"
	case s.Scale.Min == 0:
		w.Later = "minReplicas is 0, so its first replica starts with the first request; that one is judged"
	case s.Scale.Max > s.Scale.Min:
		w.Guess = fmt.Sprintf("minReplicas is judged, %d: more replicas start when requests need them", s.Scale.Min)
	}
	if servers == nil {
		w.noServer(template)
	}
	w.repeat(o, template, max(s.Scale.Min, 1))
	if t := children.Transformer; t != nil {
		if template, err = podsOf(o, t); err != nil {
			return nil, err
		}
		w.repeat(o, template, s.Transformer.Replicas(max(s.Scale.Min, 1)))
	}
	return w, nil
}

// podsOf reads the template of the pods of a service, or of its transformer.
func podsOf(o *unstructured.Unstructured, c *serving.Children) (*v1.PodTemplateSpec, error) {
	template := &v1.PodTemplateSpec{}
	spec, _ := c.Deployment["spec"].(map[string]any)
	if err := into(spec["template"], template); err != nil {
		return nil, fmt.Errorf("read the pods of InferenceService %s: %w", o.GetName(), err)
	}
	return template, nil
}

// noServer stands in for the runtime of a model where the runtimes are not known.
func (w *Workload) noServer(t *v1.PodTemplateSpec) {
	for i := range t.Spec.Containers {
		if c := &t.Spec.Containers[i]; c.Image == "" {
			c.Image = "not-known"
			w.Guess = "the runtime of the model is not known, as you cannot list servingruntimes and clusterservingruntimes: what the service itself requests is judged"
		}
	}
}
