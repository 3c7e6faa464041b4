package queues_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/trainer"
	"berth.dev/berth/core/training"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// torch is a suspended PyTorchJob that waits for its turn: a Master without GPUs, and 4 workers with 2 each.
func torch(how ...func(*kubeflow.PyTorchJob)) *kubeflow.PyTorchJob {
	j := &kubeflow.PyTorchJob{}
	j.ObjectMeta = metav1.ObjectMeta{Namespace: "ns", Name: "bert", UID: "uid", Annotations: map[string]string{api.AnnotationResume: api.ResumeInTurn}}
	j.Spec.RunPolicy.Suspend = new(true)
	j.Spec.PyTorchReplicaSpecs = map[string]kubeflow.ReplicaSpec{"worker": replicas(4, "pytorch", 2), "Master": replicas(1, "pytorch", 0)}
	for _, do := range how {
		do(j)
	}
	return j
}

// replicas are so many pods with so many GPUs each.
func replicas(count int32, container string, gpus int) kubeflow.ReplicaSpec {
	pod := kubetest.Pod("", "", "nvidia.com/gpu", gpus)
	if gpus == 0 {
		pod = kubetest.Pod("", "")
	}
	pod.Spec.Containers[0].Name, pod.Spec.Containers[0].Image = container, "x/train:1"
	raw, err := json.Marshal(v1.PodTemplateSpec{Spec: pod.Spec})
	if err != nil {
		panic(err)
	}
	return kubeflow.ReplicaSpec{Replicas: new(count), Template: runtime.RawExtension{Raw: raw}}
}

func states(conditions ...string) func(*kubeflow.PyTorchJob) {
	return func(j *kubeflow.PyTorchJob) {
		for _, c := range conditions {
			name, no := strings.CutPrefix(c, "not ")
			status := map[bool]v1.ConditionStatus{false: v1.ConditionTrue, true: v1.ConditionFalse}[no]
			j.Status.Conditions = append(j.Status.Conditions, kubeflow.TrainingCondition{Type: name, Status: status})
		}
	}
}

func TestWhichTrainingJobsWaitForTheirTurn(t *testing.T) {
	for name, c := range map[string]struct {
		j    *kubeflow.PyTorchJob
		want bool
		why  string // a part
		left bool   // pods of before are not deleted yet
	}{
		"one that says so":                       {torch(), true, "", false},
		"one that its controller has suspended":  {torch(states(training.ConditionCreated, training.ConditionSuspended)), true, "", false},
		"one whose pods are not deleted yet":     {torch(states(training.ConditionCreated, training.ConditionRunning)), true, "", true},
		"one that was resumed once before":       {torch(states("not "+training.ConditionSuspended, training.ConditionRunning)), true, "", true},
		"not one that says nothing":              {torch(func(j *kubeflow.PyTorchJob) { j.Annotations = nil }), false, "", false},
		"not one that runs":                      {torch(func(j *kubeflow.PyTorchJob) { j.Spec.RunPolicy.Suspend = nil }), false, "", false},
		"not one that was parked later":          {torch(func(j *kubeflow.PyTorchJob) { j.Annotations[api.AnnotationResumed] = "2026-11-24T06:00:00Z" }), false, "without the annotation berth.dev/resumed", false},
		"not one of another controller":          {torch(func(j *kubeflow.PyTorchJob) { j.Spec.RunPolicy.ManagedBy = new("kueue.x-k8s.io/multikueue") }), false, "spec.runPolicy.managedBy is kueue", false},
		"one of upstream's operator":             {torch(func(j *kubeflow.PyTorchJob) { j.Spec.RunPolicy.ManagedBy = new(training.ManagedByOperator) }), true, "", false},
		"not one that has succeeded":             {torch(states(training.ConditionSuspended, training.ConditionSucceeded)), false, "", false},
		"not one that cannot run":                {torch(func(j *kubeflow.PyTorchJob) { j.Spec.PyTorchReplicaSpecs["Chief"] = kubeflow.ReplicaSpec{} }), false, "the job cannot run: spec.pytorchReplicaSpecs[Chief]", false},
		"not one whose containers have no image": {torch(func(j *kubeflow.PyTorchJob) { j.Spec.PyTorchReplicaSpecs["worker"] = kubeflow.ReplicaSpec{} }), false, "no container has the name pytorch", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := queues.Of(c.j, nil)
			if ok, why := s.InTurn(); ok != c.want || !strings.Contains(why, c.why) || (why == "") != (c.why == "") || s.Left != c.left {
				t.Errorf("InTurn() = %v, %q, pods left: %v; want %v, %q, %v", ok, why, s.Left, c.want, c.why, c.left)
			}
		})
	}
}

// TestATrainJobWaitsForItsTurn has a suspended TrainJob of three pods with two GPUs each.
func TestATrainJobWaitsForItsTurn(t *testing.T) {
	j := &trainer.TrainJob{}
	j.ObjectMeta = metav1.ObjectMeta{Namespace: "ns", Name: "bert", UID: "uid", Annotations: map[string]string{api.AnnotationResume: api.ResumeInTurn}}
	j.Spec.Suspend, j.Spec.RuntimeRef.Name = new(true), "r"
	j.Spec.Trainer = &trainer.Trainer{ResourcesPerNode: &runtime.RawExtension{Raw: []byte(`{"limits": {"nvidia.com/gpu": 2}}`)}}
	if ok, why := queues.Of(j, nil).InTurn(); ok || !strings.Contains(why, "the training runtime was not read yet") {
		t.Errorf("before its runtime is known: %v, %q", ok, why)
	}
	j.Annotations[api.AnnotationRuntime] = `{"mlPolicy": {"numNodes": 3}, "template": {"spec": {"replicatedJobs": [{"name": "node", "template": {
		"metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}, "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "x"}]}}}}}]}}}`
	s := queues.Of(j, nil)
	if ok, why := s.InTurn(); !ok || s.Left || s.APIVersion != "trainer.kubeflow.org/v1alpha1" || s.Kind != "TrainJob" {
		t.Errorf("InTurn() = %v, %q of %+v", ok, why, s)
	}
	if len(s.Sets) != 1 || s.Creates != 3 || request.Of(s.Sets[0].Pod)["nvidia.com/gpu"] != 2 {
		t.Errorf("the job asks for %+v", s.Sets)
	}
	j.Spec.ManagedBy = new("kueue.x-k8s.io/multikueue")
	if ok, why := queues.Of(j, nil).InTurn(); ok || !strings.Contains(why, "spec.managedBy is kueue") {
		t.Errorf("of another controller: %v, %q", ok, why)
	}
}

func TestWhatATrainingJobAsksFor(t *testing.T) {
	elastic := func(j *kubeflow.PyTorchJob) {
		j.Spec.ElasticPolicy = &kubeflow.ElasticPolicy{MinReplicas: new(int32(2)), MaxReplicas: new(int32(6))}
	}
	minimum := func(n int32) func(*kubeflow.PyTorchJob) {
		return func(j *kubeflow.PyTorchJob) {
			j.Spec.RunPolicy.SchedulingPolicy = &kubeflow.SchedulingPolicy{MinAvailable: new(n)}
		}
	}
	for name, c := range map[string]struct {
		j    kubeflow.TrainingJob
		want string // GPUs of each pod in the order in which it asks for them, and | after those that it needs
	}{
		"all its pods, by rank":                 {torch(), "0 2 2 2 2 |"},
		"the fewest workers of an elastic job":  {torch(elastic), "0 2 2 | 2 2"},
		"as many as its scheduling policy says": {torch(minimum(4)), "0 2 2 2 | 2"},
		"the Master alone":                      {torch(minimum(1)), "0 | 2 2 2 2"},
		"those that have succeeded, too, as all run again": {torch(func(j *kubeflow.PyTorchJob) {
			j.Status.ReplicaStatuses = map[string]kubeflow.ReplicaStatus{"Worker": {Succeeded: 2}}
		}), "0 2 2 2 2 |"},
		"a TFJob in the order of ranks, not of types": {tensor(), "1 2 2 3 |"},
	} {
		t.Run(name, func(t *testing.T) {
			pods, need := queues.Of(c.j, nil).Pods()
			var got []string
			for i, p := range pods {
				if i == need {
					got = append(got, "|")
				}
				got = append(got, fmt.Sprint(request.Of(p)["nvidia.com/gpu"]))
			}
			if need == len(pods) {
				got = append(got, "|")
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("the job asks for %s, want %s", text, c.want)
			}
		})
	}
}

// tensor is a suspended TFJob with a chief, workers, and a parameter server.
func tensor() *kubeflow.TFJob {
	j := &kubeflow.TFJob{}
	j.ObjectMeta = torch().ObjectMeta
	j.Spec.RunPolicy.Suspend = new(true)
	j.Spec.TFReplicaSpecs = map[string]kubeflow.ReplicaSpec{"PS": replicas(1, "tensorflow", 3), "Chief": replicas(1, "tensorflow", 1), "Worker": replicas(2, "tensorflow", 2)}
	return j
}

func TestPodsOfATrainingJobAreOneGangAndKnowTheirSet(t *testing.T) {
	s := queues.Of(tensor(), nil)
	pods, _ := s.Pods()
	for _, p := range pods {
		if g, err := request.GangOf(p); err != nil || g == nil || g.Object == nil || g.Object.Kind != request.GangTFJob {
			t.Errorf("a pod is of gang %+v, %v", g, err)
		}
	}
	for label, want := range map[string]int{"chief": 0, "worker": 1, "ps": 2, "evaluator": -1} {
		p := kubetest.Pod("p", "")
		p.Labels = map[string]string{kubeflow.LabelReplicaType: label}
		if got := s.SetOf(p); got != want {
			t.Errorf("a %s is of set %d, want %d", label, got, want)
		}
	}
	if _, need := s.Part([]int{0, 2, 1}).Pods(); need != 3 {
		t.Errorf("a part of 3 pods needs %d", need)
	}
}
