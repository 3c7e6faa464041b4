package training

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/trainer"
	"berth.dev/berth/core/training"
)

// Kinds are the kinds of training jobs, as objects name them.
func Kinds() []string {
	return []string{kubeflow.KindPyTorchJob, kubeflow.KindTFJob, trainer.KindTrainJob}
}

// ResourceOf returns the resource of a kind of training jobs.
func ResourceOf(kind string) schema.GroupVersionResource {
	switch kind {
	case kubeflow.KindPyTorchJob:
		return kubeflow.PyTorchJobs
	case trainer.KindTrainJob:
		return trainer.TrainJobs
	}
	return kubeflow.TFJobs
}

// KindOf returns a kind of training jobs with its group and version.
func KindOf(kind string) schema.GroupVersionKind {
	return ResourceOf(kind).GroupVersion().WithKind(kind)
}

// New returns an empty object of a kind of training jobs.
func New(kind training.Kind) Object {
	switch kind {
	case training.PyTorchJob:
		return &kubeflow.PyTorchJob{}
	case training.TrainJob:
		return &trainer.TrainJob{}
	default:
		return &kubeflow.TFJob{}
	}
}

// Suspend returns the spec that suspends a job of a kind, or resumes it.
func Suspend(kind string, is bool) map[string]any {
	spec := map[string]any{"suspend": is}
	if kind == trainer.KindTrainJob {
		return spec
	}
	return map[string]any{"runPolicy": spec}
}

// Decode reads a training job of a kind from decoded JSON, such as the content of an unstructured object.
func Decode(kind string, object map[string]any) (Object, error) {
	o := New(training.Kind(kind))
	raw, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(raw, o)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kind, err)
	}
	return o, nil
}
