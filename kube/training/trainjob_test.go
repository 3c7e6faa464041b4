package training_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/api/trainer"
	core "berth.dev/berth/core/training"
	"berth.dev/berth/kube/training"
)

// trainJob is a TrainJob of two nodes, with its runtime and what else is added to its metadata, spec, and status.
func trainJob(t *testing.T, meta, spec, status string) training.Object {
	t.Helper()
	return job(t, `
kind: TrainJob
metadata:
  name: bert
  namespace: ml
  uid: u1
  creationTimestamp: "2026-01-02T03:04:05Z"
  annotations:
    berth.dev/runtime: |
      {"mlPolicy": {"numNodes": 2, "torch": {}}, "template": {"spec": {"replicatedJobs": [{"name": "node", "template": {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": {"metadata": {"labels": {"team": "a"}}, "spec": {"fieldOfTomorrow": 1,
          "initContainers": [{"name": "init", "image": "i"}], "containers": [{"name": "node", "image": "p"}]}}}}}]}}}
`+meta+"\nspec:\n  runtimeRef: {name: torch-distributed}\n"+spec+"\nstatus: {"+status+"}")
}

func TestPodOfATrainJob(t *testing.T) {
	o := trainJob(t, "", "", "")
	j, err := training.Of(o)
	if err != nil {
		t.Fatal(err)
	}
	pod, _, err := training.Pod(o, &j, core.Member{Type: core.Node, Index: 1}, "")
	if err != nil {
		t.Fatal(err)
	}
	meta := pod["metadata"].(map[string]any)
	name := meta["name"].(string)
	if again, _, _ := training.Pod(o, &j, core.Member{Type: core.Node, Index: 1}, ""); again["metadata"].(map[string]any)["name"] != name || !strings.HasPrefix(name, "bert-node-0-1-") || len(name) != len("bert-node-0-1-abcde") {
		t.Errorf("the pod is named %s, want bert-node-0-1-, five characters, and the same each time", name)
	}
	delete(meta, "name")
	same(t, pod, `
apiVersion: v1
kind: Pod
metadata:
  namespace: ml
  annotations: &jobset
    batch.kubernetes.io/job-completion-index: "1"
    jobset.sigs.k8s.io/global-replicas: "1"
    jobset.sigs.k8s.io/group-name: default
    jobset.sigs.k8s.io/group-replicas: "1"
    jobset.sigs.k8s.io/job-global-index: "0"
    jobset.sigs.k8s.io/job-group-index: "0"
    jobset.sigs.k8s.io/job-index: "0"
    jobset.sigs.k8s.io/jobset-name: bert
    jobset.sigs.k8s.io/jobset-uid: u1
    jobset.sigs.k8s.io/replicatedjob-name: node
    jobset.sigs.k8s.io/replicatedjob-replicas: "1"
    jobset.sigs.k8s.io/restart-attempt: "0"
  labels:
    <<: *jobset
    batch.kubernetes.io/job-name: bert-node-0
    job-name: bert-node-0
    team: a
    trainer.kubeflow.org/trainjob-ancestor-step: trainer
    training.kubeflow.org/job-name: bert
    training.kubeflow.org/operator-name: trainjob-controller
    training.kubeflow.org/replica-index: "1"
    training.kubeflow.org/replica-type: node
  ownerReferences: [{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, name: bert, uid: u1, controller: true, blockOwnerDeletion: true}]
spec:
  restartPolicy: OnFailure
  hostname: bert-node-0-1
  subdomain: bert
  fieldOfTomorrow: 1
  initContainers:
  - name: init
    image: i
    env: [&index {name: JOB_COMPLETION_INDEX, valueFrom: {fieldRef: {fieldPath: "metadata.labels['batch.kubernetes.io/job-completion-index']"}}}]
  containers:
  - name: node
    image: p
    env:
    - {name: PET_NNODES, value: "2"}
    - {name: PET_NPROC_PER_NODE, value: "1"}
    - {name: PET_NODE_RANK, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}}
    - {name: PET_MASTER_ADDR, value: bert-node-0-0.bert}
    - {name: PET_MASTER_PORT, value: "29500"}
    - *index
    ports: [{containerPort: 29500}]
`)
	service, err := training.Service(o, &j, core.Whole)
	if err != nil {
		t.Fatal(err)
	}
	same(t, service, `
apiVersion: v1
kind: Service
metadata:
  name: bert
  namespace: ml
  labels: {training.kubeflow.org/job-name: bert, training.kubeflow.org/operator-name: trainjob-controller}
  ownerReferences: [{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, name: bert, uid: u1, controller: true, blockOwnerDeletion: true}]
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {jobset.sigs.k8s.io/jobset-name: bert}
`)
}

func TestOfATrainJob(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	minute, six, seven := time.Minute, 6, 7
	restarting := func(policy core.Restart) []core.Replica {
		return []core.Replica{{Type: core.Node, Count: 2, Port: 29500, Restart: policy}}
	}
	none := core.Status{Start: created, Replicas: map[string]core.ReplicaStatus{core.Node: {}}}
	for _, tt := range []struct {
		name               string
		meta, spec, status string
		want               core.Job
	}{
		{"what is left out has the defaults of Jobs", "", "", "", core.Job{Replicas: restarting(core.RestartOnFailure), BackoffLimit: &six, Status: none}},
		{
			"pods that are not restarted are created again until more than the limit have failed", "", "  podSpecOverrides: [{targetJobs: [{name: node}], restartPolicy: Never}]", "",
			core.Job{Replicas: restarting(core.RestartPod), BackoffLimit: &seven, Status: none},
		},
		{
			"what the job says", "", "  suspend: true\n  activeDeadlineSeconds: 60\n  managedBy: kueue.x-k8s.io/multikueue\n  trainer: {numNodes: 2}", "",
			core.Job{Suspend: true, Deadline: &minute, ManagedBy: "kueue.x-k8s.io/multikueue", Replicas: restarting(core.RestartOnFailure), BackoffLimit: &six, Status: none},
		},
		{"a job that runs is ready", "    berth.dev/succeeded: \"1\"\n", "", "jobsStatus: [{name: node, ready: 1, active: 1}]", core.Job{
			Replicas: restarting(core.RestartOnFailure), BackoffLimit: &six,
			Status: core.Status{Start: created, Replicas: map[string]core.ReplicaStatus{core.Node: {Active: 1, Succeeded: 1}}, Conditions: []core.Condition{{Type: "Created", True: true}, {Type: "Running", True: true}}},
		}},
		{"a job that was resumed starts again", "", "", `conditions: [{type: Suspended, status: "False", reason: Resumed, lastTransitionTime: "2026-01-02T03:05:05Z"}]`, core.Job{
			Replicas: restarting(core.RestartOnFailure), BackoffLimit: &six,
			Status: core.Status{
				Start: created.Add(minute), Replicas: map[string]core.ReplicaStatus{core.Node: {}},
				Conditions: []core.Condition{{Type: "Suspended", Reason: "Resumed", Updated: created.Add(minute), Since: created.Add(minute)}},
			},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.Kind, tt.want.Namespace, tt.want.Name, tt.want.Clean = core.TrainJob, "ml", "bert", core.CleanRunning
			got, err := training.Of(trainJob(t, tt.meta, tt.spec, tt.status))
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestStatusOfATrainJob holds that the status of a job is read and written without a change, and what it is in each
// state.
func TestStatusOfATrainJob(t *testing.T) {
	const at = `lastTransitionTime: "2026-01-02T03:04:06Z"`
	for _, status := range []string{
		`jobsStatus: [{name: node, ready: 0, succeeded: 0, failed: 0, active: 1, suspended: 0}], conditions: [{type: GPUQueued, status: "True", reason: Unschedulable, message: m, ` + at + `}]`,
		`jobsStatus: [{name: node, ready: 1, succeeded: 0, failed: 0, active: 1, suspended: 0}], trainerStatus: {progressPercentage: 40}`,
		`jobsStatus: [{name: node, ready: 0, succeeded: 1, failed: 0, active: 0, suspended: 0}], conditions: [{type: Complete, status: "True", reason: AllJobsCompleted, message: jobset completed successfully, ` + at + `}]`,
		`jobsStatus: [{name: node, ready: 0, succeeded: 0, failed: 1, active: 0, suspended: 0}], conditions: [{type: Failed, status: "True", reason: FailedJobs, message: m, ` + at + `}]`,
		`conditions: [{type: Failed, status: "True", reason: TrainingRuntimeNotSupported, message: m, ` + at + `}]`,
	} {
		o := trainJob(t, "", "", status)
		j, err := training.Of(o)
		if err != nil {
			t.Fatal(err)
		}
		got, changed := training.Status(o, &j, &j.Status)
		if diff := cmp.Diff(any(o.(*trainer.TrainJob).Status), got); diff != "" || changed {
			t.Errorf("%s (-was +is):\n%s", status, diff)
		}
	}
	placed := core.Status{Conditions: []core.Condition{{Type: "GPUQueued", Reason: "Placed"}, {Type: "Created", True: true}, {Type: "Running", True: true}}}
	if got, _ := training.Status(trainJob(t, "", "", ""), &core.Job{Kind: core.TrainJob}, &placed); len(got.(trainer.TrainJobStatus).Conditions) > 0 {
		t.Errorf("a job that runs has the conditions %+v, of which kubectl shows the last as its state", got)
	}
	o := trainJob(t, "", "  suspend: true", "")
	j, err := training.Of(o)
	if err != nil {
		t.Fatal(err)
	}
	got, changed := training.Status(o, &j, &j.Status)
	if s := got.(trainer.TrainJobStatus); len(s.JobsStatus) != 1 || s.JobsStatus[0] != (trainer.JobStatus{Name: "node", Suspended: 1}) {
		t.Errorf("suspended: %+v, %v", s, changed)
	}
}
