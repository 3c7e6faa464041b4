package training

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is a *kubeflow.TFJob, a *kubeflow.PyTorchJob, or a *trainer.TrainJob.
type Object interface {
	metav1.Object
	runtime.Object
	// JobKind returns the kind; an object from a cache does not say it.
	JobKind() string
}
