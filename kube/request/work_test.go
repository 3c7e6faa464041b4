package request_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/kube/request"
)

func TestWhatPodsAreFor(t *testing.T) {
	of := func(apiVersion, kind string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "v1", Kind: "PyTorchJob", Name: "no-controller"}, {APIVersion: apiVersion, Kind: kind, Name: "o", UID: "o", Controller: new(true)}}
	}
	label := func(name, value string) map[string]string { return map[string]string{name: value} }
	for _, tt := range []struct {
		name          string
		meta          metav1.ObjectMeta
		want          request.Work
		inTrainingJob bool
	}{
		{"a pod of a Kubeflow Notebook is a notebook", metav1.ObjectMeta{Labels: label("notebook-name", "nb"), OwnerReferences: of("apps/v1", "StatefulSet")}, request.WorkNotebook, false},
		{"a server of a hub's user is a notebook", metav1.ObjectMeta{Labels: label("component", "singleuser-server"), Annotations: label("hub.jupyter.org/username", "ada")}, request.WorkNotebook, false},
		{"a component of that name without a hub's user is not", metav1.ObjectMeta{Labels: label("component", "singleuser-server")}, "", false},
		{"a pod of a KServe InferenceService serves", metav1.ObjectMeta{Labels: label("serving.kserve.io/inferenceservice", "llm"), OwnerReferences: of("apps/v1", "ReplicaSet")}, request.WorkServing, false},
		{"a pod of a Knative Service serves", metav1.ObjectMeta{Labels: label("serving.knative.dev/service", "llm")}, request.WorkServing, false},
		{"a pod of a Job trains", metav1.ObjectMeta{OwnerReferences: of("batch/v1", "Job")}, request.WorkTraining, false},
		{"a pod of a PyTorchJob trains, in a training job", metav1.ObjectMeta{OwnerReferences: of("kubeflow.org/v1", "PyTorchJob")}, request.WorkTraining, true},
		{"a pod of a Volcano Job trains, in a training job", metav1.ObjectMeta{OwnerReferences: of("batch.volcano.sh/v1alpha1", "Job")}, request.WorkTraining, true},
		{"a pod of a JobSet trains, in a training job", metav1.ObjectMeta{Labels: label("jobset.sigs.k8s.io/jobset-name", "s"), OwnerReferences: of("batch/v1", "Job")}, request.WorkTraining, true},
		{"a Deployment may be for anything", metav1.ObjectMeta{OwnerReferences: of("apps/v1", "ReplicaSet")}, "", false},
		{"an owner that does not control the pod says nothing", metav1.ObjectMeta{OwnerReferences: of("apps/v1", "ReplicaSet")[:1]}, "", false},
		{"a pod alone may be for anything", metav1.ObjectMeta{}, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &v1.Pod{ObjectMeta: tt.meta}
			if got, in := request.WorkOf(pod), request.InTrainingJob(pod); got != tt.want || in != tt.inTrainingJob {
				t.Errorf("the pod is for %q, in a training job: %v", got, in)
			}
		})
	}
}
