package can

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/api/kserve"
	"berth.dev/berth/kube/serving"
)

// ofService reads the replicas of an InferenceService. The container of its runtime is not known here: it asks for no GPUs, and those of the
// model are what is judged.
func ofService(o *unstructured.Unstructured) (*Workload, error) {
	is := &kserve.InferenceService{}
	if err := into(o.Object, is); err != nil {
		return nil, fmt.Errorf("read InferenceService %s: %w", o.GetName(), err)
	}
	written, fault := serving.Of(is)
	if fault != nil {
		return &Workload{Never: "the service cannot run: " + fault.Message}, nil
	}
	children, err := serving.Build(written, nil, 1, 0)
	if err != nil {
		return nil, err
	}
	w, template := &Workload{}, &v1.PodTemplateSpec{}
	spec, _ := children.Deployment["spec"].(map[string]any)
	if err := into(spec["template"], template); err != nil {
		return nil, fmt.Errorf("read the pods of InferenceService %s: %w", o.GetName(), err)
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
	w.repeat(o, template, max(s.Scale.Min, 1))
	return w, nil
}
