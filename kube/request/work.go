package request

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

// Work is what a pod is for.
type Work string

// What pods are for.
const (
	WorkNotebook Work = "notebook" // someone works in it
	WorkTraining Work = "training" // it computes something, and ends
	WorkServing  Work = "serving"  // it answers the requests of a model's users
)

// WorkOf returns what a pod is for, as far as its labels, annotations and controller say: notebooks of
// Kubeflow and of a JupyterHub, model servers of KServe and Knative, and pods of Jobs and training
// jobs. "" is not known: a Deployment, a StatefulSet and a pod alone may be for anything.
func WorkOf(pod *v1.Pod) Work {
	labels := pod.Labels
	switch {
	case labels[api.LabelNotebook] != "", labels[api.LabelComponent] == api.ComponentHubServer && pod.Annotations[api.AnnotationHubUser] != "":
		return WorkNotebook
	case labels[api.LabelInferenceService] != "", labels[api.LabelKnativeService] != "":
		return WorkServing
	case labels[api.LabelJobSet] != "" || jobOf(pod) != nil:
		return WorkTraining
	}
	return ""
}

// InTrainingJob reports whether a pod is of a training job that has pods of several kinds, such as
// workers and a launcher: a JobSet, a PyTorchJob, an MPIJob. A Job of Kubernetes alone is none.
func InTrainingJob(pod *v1.Pod) bool {
	ref := jobOf(pod)
	return pod.Labels[api.LabelJobSet] != "" || ref != nil && (ref.Kind != "Job" || !strings.HasPrefix(ref.APIVersion, batchv1.GroupName+"/"))
}

// jobOf is the controller of a pod, if its kind is one of jobs; else nil.
func jobOf(pod *v1.Pod) *metav1.OwnerReference {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && strings.HasSuffix(ref.Kind, "Job") {
		return ref
	}
	return nil
}
