package queue_test

import (
	"encoding/json"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/controller/queue"
)

// TestASuspendedJobCountsAsWaiting has an idle notebook hold what a suspended Job waits for.
func TestASuspendedJobCountsAsWaiting(t *testing.T) {
	s := newStage(t, org()...)
	s.change("red", func(q *v1alpha1.QueueSpec) { q.IdleNotebooks = v1alpha1.IdleGiveWay })
	s.pod("red", "nb1", "node-1", notebook("nb1"))
	s.pod("red", "p", "node-1")
	s.pod("blue", "b", "node-1")
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "train", UID: "job", Annotations: map[string]string{api.AnnotationResume: api.ResumeInTurn}},
		Spec:       batchv1.JobSpec{Suspend: new(true), Parallelism: new(int32(2)), Template: corev1.PodTemplateSpec{Spec: s.pods["p"].Spec}},
	}
	j.Spec.Template.Spec.NodeName = ""
	s.count.Set("job", j)
	parked := j.DeepCopy()
	parked.UID, parked.Annotations[api.AnnotationResumed] = "parked", "2026-11-24T08:00:00Z"
	s.count.Set("parked", parked)
	s.pass(time.Second)
	if got := row(s.status("red")); got != "2 2 0 0 1" {
		t.Errorf("queue red shows %q, want one that waits", got)
	}
	if got := row(s.status("org")); got != "4 3 0 0 1" {
		t.Errorf("queue org shows %q, want one that waits", got)
	}
	ways := s.room.Ways([]*corev1.Pod{s.pods["nb1"]}, func(*corev1.Pod) bool { return false })
	if w := ways["p-nb1"]; w.Workload != "job" || w.Why != "a workload of queue red waits for 2 GPUs" || s.room.Stands("job") != queue.Waits {
		t.Errorf("the ways are %v, and the Job stands at %v", ways, s.room.Stands("job"))
	}
	s.gone("nb1")
	j = j.DeepCopy()
	j.Spec.Suspend = new(false)
	s.count.Set("job", j)
	s.pod("red", "train-0", "", func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "job", Controller: new(true)}}
		p.Status.Conditions = nil
	})
	s.pass(time.Second)
	if got := row(s.status("red")); got != "2 1 0 0 0" || s.room.Stands("job") != queue.Waits {
		t.Errorf("with a pod that has no node, red shows %q, and the Job stands at %v", got, s.room.Stands("job"))
	}
	s.pods["train-0"].Spec.NodeName = "node-1"
	s.count.Set("p-train-0", s.pods["train-0"])
	s.pass(time.Second)
	if s.room.Stands("job") != queue.Runs {
		t.Errorf("with a pod on a node the Job stands at %v", s.room.Stands("job"))
	}
}

func TestASuspendedTrainingJobCountsAsWaiting(t *testing.T) {
	s := newStage(t, org()...)
	s.pod("red", "p", "node-1")
	raw, err := json.Marshal(corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "pytorch", Image: "x/train:1", Resources: s.pods["p"].Spec.Containers[0].Resources,
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	j := &kubeflow.PyTorchJob{}
	j.ObjectMeta = metav1.ObjectMeta{Namespace: "red", Name: "bert", UID: "job", Annotations: map[string]string{api.AnnotationResume: api.ResumeInTurn}}
	j.Spec.RunPolicy.Suspend = new(true)
	j.Spec.PyTorchReplicaSpecs = map[string]kubeflow.ReplicaSpec{"Worker": {Replicas: new(int32(4)), Template: runtime.RawExtension{Raw: raw}}}
	waiting := func(want int32) {
		t.Helper()
		s.pass(time.Second)
		if got := s.status("red").Waiting; got != want {
			t.Errorf("%d wait in queue red, want %d", got, want)
		}
	}
	s.count.Set("job", j)
	waiting(1)
	j = j.DeepCopyObject().(*kubeflow.PyTorchJob)
	j.Spec.RunPolicy.Suspend = nil
	s.count.Set("job", j)
	waiting(0)
}
