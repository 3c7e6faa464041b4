package trainjob_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/api"
	"berth.dev/berth/api/trainer"
	"berth.dev/berth/kube/trainjob"
)

// spec returns the spec of a runtime with a policy, and with what is added to its JobSet, its Job, and its pod.
func spec(policy, set, job, pod, container string) string {
	return `
mlPolicy: {` + policy + `}
template:
  spec:
    ` + set + `
    replicatedJobs:
    - name: node
      template:
        metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
        spec:
          ` + job + `
          template:
            metadata: {labels: {own: pod}}
            spec:
              fieldOfTomorrow: {deep: [1, 2]}
              ` + pod + `
              containers:
              - {name: side, image: side}
              - {name: node, image: own, ` + container + `}
`
}

// job reads a TrainJob bert with a runtime.
func job(t *testing.T, text, runtime string) *trainer.TrainJob {
	t.Helper()
	o := &trainer.TrainJob{}
	if err := yaml.Unmarshal([]byte("metadata: {name: bert, namespace: ml, uid: u1}\nspec: {runtimeRef: {name: r}, "+text+"}"), o); err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.YAMLToJSON([]byte(runtime))
	if err != nil {
		t.Fatal(err)
	}
	o.Annotations = map[string]string{api.AnnotationRuntime: string(raw)}
	return o
}

// pod returns the pod template of a job as YAML has it.
func pod(t *testing.T, r *trainjob.Resolved) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := json.Unmarshal(r.Template, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// environment writes the environment of the container that trains, as A=b C@d, where @ is of a field.
func environment(t *testing.T, r *trainjob.Resolved) string {
	t.Helper()
	var p struct {
		Spec struct {
			Containers []struct {
				Name string
				Env  []struct {
					Name, Value string
					ValueFrom   *struct{ FieldRef struct{ FieldPath string } }
				}
			}
		}
	}
	if err := json.Unmarshal(r.Template, &p); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, v := range p.Spec.Containers[1].Env {
		if v.ValueFrom != nil {
			out = append(out, v.Name+"@"+v.ValueFrom.FieldRef.FieldPath)
		} else {
			out = append(out, v.Name+"="+v.Value)
		}
	}
	return strings.Join(out, " ")
}

// TestEnvironment has the cases of upstream's tables (pkg/runtime/framework/plugins of trainer 2.2, and of 2.1 where
// the runtime has numProcPerNode), by their facts.
func TestEnvironment(t *testing.T) {
	const (
		index  = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
		master = " PET_NODE_RANK@" + index + " PET_MASTER_ADDR=bert-node-0-0.bert PET_MASTER_PORT=29500"
	)
	for _, tt := range []struct {
		name, job, policy, container string
		want                         string
	}{
		{"nodes and processes of the job go before those of the runtime", "trainer: {numNodes: 4, numProcPerNode: 3}", "numNodes: 2, torch: {numProcPerNode: 5}", "", "PET_NNODES=4 PET_NPROC_PER_NODE=3" + master},
		{"those of the runtime count where the job has none", "suspend: false", "numNodes: 2, torch: {numProcPerNode: 5}", "", "PET_NNODES=2 PET_NPROC_PER_NODE=5" + master},
		{"a runtime without a number has one node", "trainer: {}", "torch: {}", "", "PET_NNODES=1 PET_NPROC_PER_NODE=1" + master},
		{"a pod with GPUs starts as many processes as it finds", "trainer: {resourcesPerNode: {limits: {nvidia.com/gpu: 2}}}", "torch: {}", "", "PET_NNODES=1 PET_NPROC_PER_NODE=auto" + master},
		{"GPUs of the runtime count, too", "trainer: {}", "torch: {}", `resources: {requests: {example.com/gpu: "2"}}`, "PET_NNODES=1 PET_NPROC_PER_NODE=auto" + master},
		{"and MIG devices", "trainer: {resourcesPerNode: {limits: {nvidia.com/mig-1g.10gb: 2}}}", "torch: {}", "", "PET_NNODES=1 PET_NPROC_PER_NODE=auto" + master},
		{"resources of the job replace those of the runtime", "trainer: {resourcesPerNode: {requests: {cpu: 4}}}", "torch: {}", `resources: {limits: {nvidia.com/gpu: "2"}}`, "PET_NNODES=1 PET_NPROC_PER_NODE=4" + master},
		{"without a GPU there is a process for each CPU, rounded up", "trainer: {resourcesPerNode: {requests: {cpu: 2500m}}}", "torch: {}", "", "PET_NNODES=1 PET_NPROC_PER_NODE=3" + master},
		{"a limit of CPUs counts where nothing is requested", "trainer: {resourcesPerNode: {limits: {cpu: 5}}}", "torch: {}", "", "PET_NNODES=1 PET_NPROC_PER_NODE=5" + master},
		{"cpu is that in any case", "trainer: {numProcPerNode: cpu, resourcesPerNode: {limits: {nvidia.com/gpu: 2, cpu: 6}}}", "torch: {}", "", "PET_NNODES=1 PET_NPROC_PER_NODE=6" + master},
		{"gpu is passed on", "trainer: {numProcPerNode: gpu}", "torch: {}", "", "PET_NNODES=1 PET_NPROC_PER_NODE=gpu" + master},
		{"variables of the job replace those of the runtime at their place, and those of torch follow", "trainer: {env: [{name: B, value: job}, {name: C, value: job}]}", "torch: {}", "env: [{name: A, value: own}, {name: B, value: own}, {name: PET_NNODES, value: own}]", "A=own B=job PET_NNODES=1 C=job PET_NPROC_PER_NODE=1" + master},
		{"a plain runtime sets nothing", "trainer: {numNodes: 3, env: [{name: A, value: job}]}", "numNodes: 2", "", "A=job"},
		{"JAX", "trainer: {numNodes: 3}", "jax: {}", "", "JAX_NUM_PROCESSES=3 JAX_PROCESS_ID@" + index + " JAX_COORDINATOR_ADDRESS=bert-node-0-0.bert:29500"},
		{"XGBoost counts a worker for each GPU", "trainer: {numNodes: 3, resourcesPerNode: {limits: {nvidia.com/gpu: 2}}}", "xgboost: {}", "", "DMLC_TRACKER_URI=bert-node-0-0.bert DMLC_TRACKER_PORT=29500 DMLC_TASK_ID@" + index + " DMLC_NUM_WORKER=6"},
		{"or one for a node without any", "trainer: {numNodes: 3}", "xgboost: {}", "", "DMLC_TRACKER_URI=bert-node-0-0.bert DMLC_TRACKER_PORT=29500 DMLC_TASK_ID@" + index + " DMLC_NUM_WORKER=3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := trainjob.Resolve(job(t, tt.job, spec(tt.policy, "", "", "", tt.container)))
			if err != nil {
				t.Fatal(err)
			}
			if got := environment(t, r); got != tt.want {
				t.Errorf("the environment is\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestTheTrainerReplacesWhatTheRuntimeSays(t *testing.T) {
	r, err := trainjob.Resolve(job(t, "trainer: {image: job, command: [torchrun], args: [a, b], resourcesPerNode: {limits: {nvidia.com/gpu: 1}}}",
		spec("torch: {}", "ttlSecondsAfterFinished: 60", "backoffLimit: 2", "restartPolicy: Never", "command: [own], ports: [{containerPort: 9090}], resources: {limits: {cpu: 1}}")))
	if err != nil {
		t.Fatal(err)
	}
	if r.Nodes != 1 || r.BackoffLimit != 2 || r.KeepsPods || r.TTL == nil || r.TTL.Seconds() != 60 {
		t.Errorf("resolved %+v", r)
	}
	want := map[string]any{}
	if err := yaml.Unmarshal([]byte(`
image: job
command: [torchrun]
args: [a, b]
name: node
ports: [{containerPort: 9090}, {containerPort: 29500}]
resources: {limits: {nvidia.com/gpu: 1}}
`), &want); err != nil {
		t.Fatal(err)
	}
	got := pod(t, r)["spec"].(map[string]any)["containers"].([]any)[1].(map[string]any)
	delete(got, "env")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestChangesOfTheRuntime has one change in the spellings of versions 2.2, 2.1, and 2.0.
func TestChangesOfTheRuntime(t *testing.T) {
	const change = `{nodeSelector: {a: b}, tolerations: [{operator: Exists}], volumes: [{name: v, emptyDir: {}}], containers: [{name: node, volumeMounts: [{name: v, mountPath: /v}]}]}`
	inner := strings.TrimSuffix(strings.TrimPrefix(change, "{"), "}")
	for name, text := range map[string]string{
		"2.2": "runtimePatches: [{manager: me, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: " + change + "}}}}]}}}}]",
		"2.1": "podTemplateOverrides: [{targetJobs: [{name: node}], spec: " + change + "}]",
		"2.0": "podSpecOverrides: [{targetJobs: [{name: node}], " + inner + "}]",
	} {
		r, err := trainjob.Resolve(job(t, text, spec("", "", "", "tolerations: [{key: own, operator: Exists}]", "volumeMounts: [{name: own, mountPath: /own}]")))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := pod(t, r)["spec"].(map[string]any)
		want := map[string]any{}
		if err := yaml.Unmarshal([]byte(`
fieldOfTomorrow: {deep: [1, 2]}
nodeSelector: {a: b}
tolerations: [{operator: Exists}]
volumes: [{name: v, emptyDir: {}}]
containers:
- {name: side, image: side}
- {name: node, image: own, volumeMounts: [{name: v, mountPath: /v}, {name: own, mountPath: /own}]}
`), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	r, err := trainjob.Resolve(job(t, "podTemplateOverrides: [{targetJobs: [{name: node}], metadata: {labels: {own: job}, annotations: {a: b}}}]", spec("", "", "", "", "")))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"labels": map[string]any{"own": "job"}, "annotations": map[string]any{"a": "b"}}, pod(t, r)["metadata"]); diff != "" {
		t.Errorf("labels and annotations (-want +got):\n%s", diff)
	}
}

func TestARuntimeThatIsNotThere(t *testing.T) {
	for _, tt := range []struct{ name, ref, want string }{
		{"is named, with what there is", "name: mine", "spec.runtimeRef: ClusterTrainingRuntime mine: there is none of this name; create it and then the job again, or use torch-distributed"},
		{"may be one of the namespace", "name: mine, kind: TrainingRuntime", "spec.runtimeRef: TrainingRuntime mine: there is none of this name"},
		{"may be upstream's for DeepSpeed", "name: deepspeed-distributed", "MPI is not run, and neither are DeepSpeed"},
		{"or for MLX", "name: mlx-distributed", "MPI is not run"},
		{"or for torchtune", "name: torchtune-llama3.2-1b", "torchtune is not run"},
		{"or with the data cache", "name: torch-distributed-with-cache", "initializers and the data cache are not run"},
	} {
		o := &trainer.TrainJob{}
		if err := yaml.Unmarshal([]byte("spec: {runtimeRef: {"+tt.ref+"}}"), o); err != nil {
			t.Fatal(err)
		}
		if err := trainjob.Absent(o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("a runtime that is not there %s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestARuntimeThatIsKept(t *testing.T) {
	o := &trainer.TrainJob{}
	o.Spec.RuntimeRef.Name = "r"
	if _, err := trainjob.Resolve(o); err == nil || err.Error() != trainjob.ErrNoRuntime.Error() {
		t.Errorf("a job without its runtime: %v", err)
	}
	if _, err := trainjob.Keep(o, map[string]any{"x": strings.Repeat("a", 1<<18)}); err == nil || !strings.Contains(err.Error(), "make it smaller") {
		t.Errorf("a runtime that is too large: %v", err)
	}
	o.Annotations = map[string]string{api.AnnotationRuntime: "no JSON"}
	if _, err := trainjob.Resolve(o); err == nil || !strings.HasPrefix(err.Error(), "metadata.annotations[berth.dev/runtime]: not a runtime") {
		t.Errorf("a runtime that someone has changed: %v", err)
	}
}
