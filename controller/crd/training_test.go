package crd_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/kube/training"
)

// TestWhatATrainingJobCannotSay has jobs that cannot run: the API server refuses them with
// the field and what to do, and the controller refuses them in the same way if they are stored all the same, under
// a definition of someone else's. The cases are those of the webhooks of training-operator 1.9
// (pkg/webhooks/tensorflow, pkg/webhooks/pytorch), by their facts, and others.
func TestWhatATrainingJobCannotSay(t *testing.T) {
	const pod = "template: {spec: {containers: [{name: NAME, image: x}]}}"
	tf, torch := strings.ReplaceAll(pod, "NAME", "tensorflow"), strings.ReplaceAll(pod, "NAME", "pytorch")
	long := strings.Repeat("a", 54)
	for _, tt := range []struct {
		name, kind, meta, spec string
		want                   string // of the API server
		check                  string // of the controller; "" is that it is the API server's alone
	}{
		{"an unknown type", "TFJob", "x", "tfReplicaSpecs: {Helper: {" + tf + "}}", "use Chief, Master, PS, Worker, or Evaluator", "use one of Chief, Evaluator, Master, PS, Worker"},
		{"no types", "TFJob", "x", "tfReplicaSpecs: {}", "spec.tfReplicaSpecs", "add one of"},
		{"a type twice", "TFJob", "x", "tfReplicaSpecs: {worker: {" + tf + "}, Worker: {" + tf + "}}", "remove one", "remove one"},
		{"a Chief and a Master", "TFJob", "x", "tfReplicaSpecs: {Chief: {" + tf + "}, Master: {" + tf + "}}", "remove one", "remove one"},
		{"no replicas", "TFJob", "x", "tfReplicaSpecs: {Worker: {replicas: 0, " + tf + "}}", "remove the type if it needs none", "remove the type if it needs none"},
		{"a negative number of replicas", "TFJob", "x", "tfReplicaSpecs: {Worker: {replicas: -1, " + tf + "}}", "remove the type if it needs none", "remove the type if it needs none"},
		{"a container of another name", "TFJob", "x", "tfReplicaSpecs: {Worker: {" + torch + "}}", "rename the one that trains", "rename the one that trains"},
		{"no containers", "TFJob", "x", "tfReplicaSpecs: {Worker: {template: {spec: {containers: []}}}}", "containers", "rename the one that trains"},
		{"a container without an image", "TFJob", "x", "tfReplicaSpecs: {Worker: {template: {spec: {containers: [{name: tensorflow}]}}}}", "image", "add one"},
		{"a name that begins with a digit", "TFJob", "1x", "tfReplicaSpecs: {Worker: {" + tf + "}}", "must start with a letter", "choose a shorter or simpler one"},
		{"a name too long for its last pod", "TFJob", long, "tfReplicaSpecs: {Worker: {replicas: 100, " + tf + "}}", "choose a shorter name", "choose a shorter or simpler one"},
		{"an unknown restart policy", "TFJob", "x", "tfReplicaSpecs: {Worker: {restartPolicy: Sometimes, " + tf + "}}", "restartPolicy", "use Always, OnFailure, Never, or ExitCode"},
		{"an unknown clean-up policy", "TFJob", "x", "runPolicy: {cleanPodPolicy: Some}\n  tfReplicaSpecs: {Worker: {" + tf + "}}", "cleanPodPolicy", ""},
		{"an unknown controller", "TFJob", "x", "runPolicy: {managedBy: me}\n  tfReplicaSpecs: {Worker: {" + tf + "}}", "managedBy", ""},
		{"a GPU that is requested without a limit", "TFJob", "x", `tfReplicaSpecs: {Worker: {template: {spec: {containers: [{name: tensorflow, image: x, resources: {requests: {nvidia.com/gpu: 1}}}]}}}}`, "requested without a limit", ""},
		{"a request unlike its limit", "TFJob", "x", `tfReplicaSpecs: {Worker: {template: {spec: {containers: [{name: tensorflow, image: x, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}}]}}}}`, "differs from its limit", ""},
		{"an unknown field", "TFJob", "x", "tfReplicaSpec: {}\n  tfReplicaSpecs: {Worker: {" + tf + "}}", "unknown field spec.tfReplicaSpec", ""},

		{"a Chief of a PyTorchJob", "PyTorchJob", "x", "pytorchReplicaSpecs: {Chief: {" + torch + "}}", "use Master or Worker", "use one of Master, Worker"},
		{"two Masters", "PyTorchJob", "x", "pytorchReplicaSpecs: {Master: {replicas: 2, " + torch + "}}", "a job has one Master", "a job has one Master"},
		{"a Master without a number", "PyTorchJob", "x", "pytorchReplicaSpecs: {Master: {" + torch + "}}", "a job has one Master", "a job has one Master"},
		{"a container that is called tensorflow", "PyTorchJob", "x", "pytorchReplicaSpecs: {Worker: {" + tf + "}}", "rename the one that trains", "rename the one that trains"},
		{"an elastic job without workers", "PyTorchJob", "x", "elasticPolicy: {minReplicas: 1}\n  pytorchReplicaSpecs: {Master: {replicas: 1, " + torch + "}}", "add them, or remove the policy", "add them, or remove the policy"},
		{"an elastic minimum above the maximum", "PyTorchJob", "x", "elasticPolicy: {minReplicas: 3, maxReplicas: 2}\n  pytorchReplicaSpecs: {Worker: {" + torch + "}}", "exchange them", "exchange them"},
		{"processes said twice", "PyTorchJob", "x", "nprocPerNode: \"2\"\n  elasticPolicy: {nProcPerNode: 2}\n  pytorchReplicaSpecs: {Worker: {" + torch + "}}", "use spec.nprocPerNode alone", "use spec.nprocPerNode alone"},
		{"processes that are not a number", "PyTorchJob", "x", "nprocPerNode: many\n  pytorchReplicaSpecs: {Worker: {" + torch + "}}", "use auto, cpu, gpu, or a number", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := newJudge(t, strings.ToLower(tt.kind)+"s.kubeflow.org")
			object, wrong := j.read(t, fmt.Sprintf("metadata: {name: %s, namespace: ml}\nspec:\n  %s\n", tt.meta, tt.spec))
			if got := strings.Join(wrong, "\n"); !strings.Contains(got, tt.want) {
				t.Errorf("the API server says %q, want %q", got, tt.want)
			}
			if tt.check == "" {
				return
			}
			var o kubeflow.TrainingJob = &kubeflow.TFJob{}
			if tt.kind == kubeflow.KindPyTorchJob {
				o = &kubeflow.PyTorchJob{}
			}
			raw, err := json.Marshal(object)
			if err == nil {
				err = json.Unmarshal(raw, o)
			}
			if err != nil {
				t.Fatal(err)
			}
			read, err := training.Of(o)
			if err == nil {
				err = training.Check(o, &read)
			}
			if err == nil || !strings.Contains(err.Error(), tt.check) || !strings.HasPrefix(err.Error(), "spec.") && !strings.HasPrefix(err.Error(), "metadata.") {
				t.Errorf("the controller says %v, want a field and %q", err, tt.check)
			}
		})
	}
}

// TestWhatATrainingJobCanSay has jobs that are stored as they are, with fields of pods that no schema here has.
func TestWhatATrainingJobCanSay(t *testing.T) {
	for _, tt := range []struct{ name, kind, spec string }{
		{"the TFJob of the lab", "TFJob", `
  tfReplicaSpecs:
    Chief:
      replicas: 1
      template: {spec: {containers: [{name: tensorflow, image: "tensorflow/tensorflow:2.14.0-gpu", command: [python, /scripts/train.py], resources: {limits: {nvidia.com/gpu: 1}}}]}}
    Worker:
      replicas: 3
      template: {metadata: {labels: {a: b}}, spec: {newField: {x: 1}, containers: [{name: tensorflow, image: x, resources: {limits: {nvidia.com/gpu: "1"}}}]}}
`},
		{"types in any case, and all policies", "TFJob", `
  enableDynamicWorker: true
  successPolicy: AllWorkers
  runPolicy: {cleanPodPolicy: Running, ttlSecondsAfterFinished: 0, activeDeadlineSeconds: 5, backoffLimit: 0, suspend: true, managedBy: kubeflow.org/training-operator, schedulingPolicy: {minAvailable: 2, minResources: {cpu: 4}, queue: q}}
  tfReplicaSpecs:
    ps: {replicas: 2, restartPolicy: ExitCode, template: {spec: {containers: [{name: tensorflow, image: x}]}}}
    WORKER: {template: {spec: {containers: [{name: side, image: sidecar}, {name: tensorflow, image: x}]}}}
`},
		{"an elastic PyTorchJob", "PyTorchJob", `
  nprocPerNode: "4"
  elasticPolicy: {minReplicas: 1, maxReplicas: 4, rdzvBackend: c10d, rdzvConf: [{key: timeout, value: "60"}], maxRestarts: 3, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]}
  pytorchReplicaSpecs:
    Worker: {replicas: 2, template: {spec: {containers: [{name: pytorch, image: x}]}}}
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := newJudge(t, strings.ToLower(tt.kind)+"s.kubeflow.org")
			if _, wrong := j.read(t, "metadata: {name: x}\nspec:"+tt.spec); len(wrong) > 0 {
				t.Errorf("refused: %s", strings.Join(wrong, "\n"))
			}
		})
	}
}
