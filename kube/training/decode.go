package training

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/api/kubeflow"
)

// Kinds are the kinds of training jobs, as objects name them.
func Kinds() []string { return []string{kubeflow.KindPyTorchJob, kubeflow.KindTFJob} }

// ResourceOf returns the resource of a kind of training jobs.
func ResourceOf(kind string) schema.GroupVersionResource {
	if kind == kubeflow.KindPyTorchJob {
		return kubeflow.PyTorchJobs
	}
	return kubeflow.TFJobs
}

// Decode reads a training job of a kind from decoded JSON, such as the content of an unstructured object.
func Decode(kind string, object map[string]any) (kubeflow.TrainingJob, error) {
	var o kubeflow.TrainingJob = &kubeflow.TFJob{}
	if kind == kubeflow.KindPyTorchJob {
		o = &kubeflow.PyTorchJob{}
	}
	raw, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(raw, o)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kind, err)
	}
	return o, nil
}
