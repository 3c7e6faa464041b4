package training_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/api/kubeflow"
	core "berth.dev/berth/core/training"
	"berth.dev/berth/kube/training"
)

// job reads a job from YAML.
func job(t *testing.T, text string) training.Object {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var kind struct{ Kind string }
	if err := json.Unmarshal(raw, &kind); err != nil {
		t.Fatal(err)
	}
	o := training.New(core.Kind(kind.Kind))
	if err := json.Unmarshal(raw, o); err != nil {
		t.Fatal(err)
	}
	return o
}

// same compares an object with YAML.
func same(t *testing.T, got any, want string) {
	t.Helper()
	raw, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var have, wanted any
	if err := json.Unmarshal(raw, &have); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, have); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const torch = `
kind: PyTorchJob
metadata: {name: bert, namespace: ml, uid: u1}
spec:
  nprocPerNode: "2"
  pytorchReplicaSpecs:
    master:
      replicas: 1
      restartPolicy: ExitCode
      template:
        metadata: {labels: {team: a}, annotations: {note: b}}
        spec:
          restartPolicy: Always
          fieldOfTomorrow: {deep: [1, 2]}
          containers:
          - {name: side, image: s}
          - name: pytorch
            image: p
            env: [{name: OWN, value: x}]
            ports: [{name: pytorchjob-port, containerPort: 1234}, {name: metrics, containerPort: 9090}]
    Worker: {replicas: 2, template: {spec: {containers: [{name: pytorch, image: p}]}}}
`

// rows: ML-32
func TestPod(t *testing.T) {
	o := job(t, torch)
	j, err := training.Of(o)
	if err != nil {
		t.Fatal(err)
	}
	pod, overwritten, err := training.Pod(o, &j, core.Member{Type: core.Master}, "")
	if err != nil || !overwritten {
		t.Fatalf("overwrites a restart policy: %v, %v", overwritten, err)
	}
	same(t, pod, `
apiVersion: v1
kind: Pod
metadata:
  name: bert-master-0
  namespace: ml
  annotations: {note: b}
  labels:
    team: a
    training.kubeflow.org/job-name: bert
    training.kubeflow.org/job-role: master
    training.kubeflow.org/operator-name: pytorchjob-controller
    training.kubeflow.org/replica-index: "0"
    training.kubeflow.org/replica-type: master
  ownerReferences: [{apiVersion: kubeflow.org/v1, kind: PyTorchJob, name: bert, uid: u1, controller: true, blockOwnerDeletion: true}]
spec:
  restartPolicy: Never
  fieldOfTomorrow: {deep: [1, 2]}
  containers:
  - name: side
    image: s
    env:
    - {name: PYTHONUNBUFFERED, value: "1"}
    - {name: MASTER_PORT, value: "1234"}
    - {name: PET_MASTER_PORT, value: "1234"}
    - {name: MASTER_ADDR, value: bert-master-0}
    - {name: PET_MASTER_ADDR, value: bert-master-0}
    - {name: WORLD_SIZE, value: "6"}
    - {name: RANK, value: "0"}
    - {name: PET_NODE_RANK, value: "0"}
    - {name: PET_NPROC_PER_NODE, value: "2"}
    - {name: PET_NNODES, value: "3"}
  - name: pytorch
    image: p
    env:
    - {name: OWN, value: x}
    - {name: PYTHONUNBUFFERED, value: "1"}
    - {name: MASTER_PORT, value: "1234"}
    - {name: PET_MASTER_PORT, value: "1234"}
    - {name: MASTER_ADDR, value: bert-master-0}
    - {name: PET_MASTER_ADDR, value: bert-master-0}
    - {name: WORLD_SIZE, value: "6"}
    - {name: RANK, value: "0"}
    - {name: PET_NODE_RANK, value: "0"}
    - {name: PET_NPROC_PER_NODE, value: "2"}
    - {name: PET_NNODES, value: "3"}
    ports: [{name: pytorchjob-port, containerPort: 1234}, {name: metrics, containerPort: 9090}]
`)
	worker, overwritten, err := training.Pod(o, &j, core.Member{Type: core.Worker, Index: 1}, "")
	if err != nil || overwritten {
		t.Fatalf("overwrites a restart policy: %v, %v", overwritten, err)
	}
	c := worker["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
	same(t, c["ports"], `[{name: pytorchjob-port, containerPort: 23456, protocol: TCP}]`)
	if worker["spec"].(map[string]any)["restartPolicy"] != "OnFailure" {
		t.Errorf("the restart policy of a PyTorchJob's worker is %v", worker["spec"].(map[string]any)["restartPolicy"])
	}
}

func TestService(t *testing.T) {
	o := job(t, torch)
	j, err := training.Of(o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := training.Service(o, &j, core.Member{Type: core.Master})
	if err != nil {
		t.Fatal(err)
	}
	same(t, s, `
apiVersion: v1
kind: Service
metadata:
  name: bert-master-0
  namespace: ml
  labels: &labels
    training.kubeflow.org/job-name: bert
    training.kubeflow.org/operator-name: pytorchjob-controller
    training.kubeflow.org/replica-index: "0"
    training.kubeflow.org/replica-type: master
  ownerReferences: [{apiVersion: kubeflow.org/v1, kind: PyTorchJob, name: bert, uid: u1, controller: true, blockOwnerDeletion: true}]
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: *labels
  ports:
  - {name: pytorchjob-port, port: 1234, targetPort: 1234, protocol: TCP}
  - {name: metrics, port: 9090, targetPort: 9090, protocol: TCP}
`)
}

// TestOf has the defaults of training-operator (pkg/apis/kubeflow.org/v1/*_defaults_test.go), by their facts.
// rows: ML-34
func TestOf(t *testing.T) {
	one := func(kind, field, container, spec string) string {
		return "kind: " + kind + "\nmetadata: {name: x, namespace: ml}\nspec:\n  " + field + ": {Worker: {template: {spec: {containers: [{name: " + container + ", image: i}]}}" + spec
	}
	for _, tt := range []struct {
		name, text string
		want       func(*core.Job)
	}{
		{"a TFJob", one("TFJob", "tfReplicaSpecs", "tensorflow", "}}"), func(j *core.Job) {
			j.Kind, j.Replicas = core.TFJob, []core.Replica{{Type: core.Worker, Count: 1, Port: 2222, Restart: core.RestartNever}}
		}},
		{"a PyTorchJob", one("PyTorchJob", "pytorchReplicaSpecs", "pytorch", ", replicas: 3}}"), func(j *core.Job) {
			j.Kind, j.Processes, j.Replicas = core.PyTorchJob, "auto", []core.Replica{{Type: core.Worker, Count: 3, Port: 23456, Restart: core.RestartOnFailure}}
		}},
		{"an elastic one without numbers has those of its workers", one("PyTorchJob", "pytorchReplicaSpecs", "pytorch", ", replicas: 3}}\n  elasticPolicy: {}"), func(j *core.Job) {
			j.Kind, j.Processes, j.Replicas = core.PyTorchJob, "auto", []core.Replica{{Type: core.Worker, Count: 3, Port: 23456, Restart: core.RestartOnFailure}}
			j.Elastic = &core.Elastic{Min: 3, Max: 3}
		}},
		{"an elastic one with a maximum has it as minimum, too", one("PyTorchJob", "pytorchReplicaSpecs", "pytorch", ", replicas: 3}}\n  elasticPolicy: {maxReplicas: 4, rdzvConf: [{key: a, value: b}, {key: c, value: d}]}"), func(j *core.Job) {
			j.Kind, j.Processes, j.Replicas = core.PyTorchJob, "auto", []core.Replica{{Type: core.Worker, Count: 3, Port: 23456, Restart: core.RestartOnFailure}}
			j.Elastic = &core.Elastic{Min: 4, Max: 4, Conf: "a=b,c=d"}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := core.Job{Namespace: "ml", Name: "x", Clean: core.CleanNone}
			tt.want(&want)
			got, err := training.Of(job(t, tt.text))
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestStatusIsKept holds that a status that is read and written says the same.
func TestStatusIsKept(t *testing.T) {
	o := job(t, torch+`
status:
  startTime: "2026-01-02T03:04:05Z"
  conditions:
  - {type: Created, status: "True", reason: PyTorchJobCreated, message: m, lastUpdateTime: "2026-01-02T03:04:05Z", lastTransitionTime: "2026-01-02T03:04:05Z"}
  - {type: Running, status: "False", reason: PyTorchJobSuspended, message: m, lastUpdateTime: "2026-01-02T03:04:06Z", lastTransitionTime: "2026-01-02T03:04:05Z"}
  replicaStatuses:
    Worker: {active: 2, selector: "training.kubeflow.org/job-name=bert,training.kubeflow.org/operator-name=pytorchjob-controller,training.kubeflow.org/replica-type=worker"}
`)
	j, err := training.Of(o)
	if err != nil {
		t.Fatal(err)
	}
	status, changed := training.Status(o, &j, &j.Status)
	if diff := cmp.Diff(any(o.(kubeflow.TrainingJob).Job().Status), status); diff != "" || changed {
		t.Errorf("(-was +is):\n%s", diff)
	}
}
