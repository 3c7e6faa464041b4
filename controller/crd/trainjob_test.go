package crd_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/api"
	"berth.dev/berth/api/trainer"
	"berth.dev/berth/controller/crd"
	"berth.dev/berth/kube/training"
)

// step is the label without which a runtime has no trainer.
const step = "metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}"

// runtimeOf returns the spec of a runtime, with what is added to its policy, its JobSet, its Job, and its pod.
func runtimeOf(policy, set, job, pod string) string {
	return fmt.Sprintf("{mlPolicy: {%s}, template: {spec: {%s replicatedJobs: [{name: node, template: {%s, spec: {%s template: {spec: {%s containers: [{name: node, image: x}]}}}}}]}}}", policy, set, step, job, pod)
}

// TestWhatATrainingRuntimeCannotSay has runtimes that are not run: the API server refuses them, and a TrainJob that names one under
// a definition of someone else's fails with the same.
func TestWhatATrainingRuntimeCannotSay(t *testing.T) {
	container := func(c string) string {
		return "{template: {spec: {replicatedJobs: [{name: node, template: {" + step + ", spec: {template: {spec: {containers: [" + c + "]}}}}}]}}}"
	}
	jobs := func(list string) string { return "{template: {spec: {replicatedJobs: [" + list + "]}}}" }
	const plain = "template: {spec: {template: {spec: {containers: [{name: node, image: x}]}}}}"
	for _, tt := range []struct{ name, spec, want string }{
		{"MPI", runtimeOf("mpi: {numProcPerNode: 1}", "", "", ""), "MPI is not run"},
		{"Flux", runtimeOf("flux: {}", "", "", ""), "Flux is not run"},
		{"an elastic policy", runtimeOf("torch: {elasticPolicy: {minNodes: 1}}", "", "", ""), "use an elastic PyTorchJob"},
		{"a failure policy", runtimeOf("", "failurePolicy: {maxRestarts: 3},", "", ""), "set backoffLimit in the template of the Job"},
		{"volume claims", runtimeOf("", "volumeClaimPolicies: [{templates: []}],", "", ""), "create a PersistentVolumeClaim"},
		{"a coordinator", runtimeOf("", "coordinator: {replicatedJob: node},", "", ""), "pods find the first by its name"},
		{"a subdomain", runtimeOf("", "network: {subdomain: x},", "", ""), "the Service has the name of the job"},
		{"a deadline of the Job", runtimeOf("", "", "activeDeadlineSeconds: 5,", ""), "set spec.activeDeadlineSeconds of the TrainJob"},
		{"a pod failure policy", runtimeOf("", "", "podFailurePolicy: {rules: []},", ""), "failures are not distinguished"},
		{"a success policy of the Job", runtimeOf("", "", "successPolicy: {rules: []},", ""), "a job succeeds with all its pods"},
		{"a limit per index", runtimeOf("", "", "backoffLimitPerIndex: 1,", ""), "set backoffLimit instead"},
		{"failed indexes", runtimeOf("", "", "maxFailedIndexes: 1,", ""), "set backoffLimit instead"},
		{"pods without an index", runtimeOf("", "", "completionMode: NonIndexed,", ""), "pods have an index"},
		{"a restart policy that Jobs do not have", runtimeOf("", "", "", "restartPolicy: Always,"), "use OnFailure or Never"},
		{"a container of another name", container("{name: pytorch, image: x}"), "no container has the name node"},
		{"torchtune", container("{name: node, image: x, command: [tune, run]}"), "torchtune is not run"},
		{"an initializer", jobs("{name: dataset-initializer, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}, spec: {template: {spec: {containers: [{name: dataset-initializer, image: x}]}}}}}, {name: node, template: {" + step + ", spec: {template: {spec: {containers: [{name: node, image: x}]}}}}}"), "initializers and the data cache are not run"},
		{"no jobs", jobs(""), "with one, of the name node|has one job, of the name node"},
		{"a job of another name", jobs("{name: worker, template: {" + step + ", spec: {template: {spec: {containers: [{name: node, image: x}]}}}}}"), "is not named node"},
		{"a job without its label", jobs("{name: node, " + plain + "}"), "trainjob-ancestor-step=trainer is missing"},
		{"more than one replica", jobs("{name: node, replicas: 2, template: {" + step + ", spec: {template: {spec: {containers: [{name: node, image: x}]}}}}}"), "set mlPolicy.numNodes instead"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			object, wrong := newJudge(t, "trainingruntimes.trainer.kubeflow.org").read(t, "metadata: {name: x}\nspec: "+tt.spec)
			if got := strings.Join(wrong, "\n"); !either(got, tt.want) {
				t.Errorf("the API server says %q, want %q", got, tt.want)
			}
			raw, err := json.Marshal(object["spec"])
			if err != nil {
				t.Fatal(err)
			}
			o := &trainer.TrainJob{}
			o.Name, o.Spec.RuntimeRef.Name, o.Annotations = "bert", "x", map[string]string{api.AnnotationRuntime: string(raw)}
			if _, err = training.Of(o); err == nil || !either(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "spec.runtimeRef: ClusterTrainingRuntime x: ") && !strings.HasPrefix(err.Error(), "spec.runtimeRef: template: ") || !training.NotSupported(err) {
				t.Errorf("the controller says %v, want the runtime and %q", err, tt.want)
			}
		})
	}
}

// either reports whether a text has one of the parts that are written with bars between them.
func either(text, parts string) bool {
	for p := range strings.SplitSeq(parts, "|") {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}

// TestWhatATrainJobCannotSay is the same for TrainJobs. Their cases are those of the webhook of trainer 2.2 (pkg/webhooks, and Validate of its
// plugins), by their facts, and others.
func TestWhatATrainJobCannotSay(t *testing.T) {
	const ref = "runtimeRef: {name: torch-distributed}"
	for _, tt := range []struct {
		name, meta, spec string
		want             string // of the API server; "" is that it is the controller's alone
		check            string // of the controller; "" is that it is the API server's alone
	}{
		{"no runtime", "x", "trainer: {}", "runtimeRef", ""},
		{"a runtime of another group", "x", "runtimeRef: {name: x, apiGroup: jobset.x-k8s.io}", "use trainer.kubeflow.org", "use a ClusterTrainingRuntime or a TrainingRuntime"},
		{"a runtime of another kind", "x", "runtimeRef: {name: x, kind: JobSet}", "use ClusterTrainingRuntime or TrainingRuntime", "use a ClusterTrainingRuntime or a TrainingRuntime"},
		{"an initializer of data", "x", ref + "\n  initializer: {dataset: {storageUri: hf://x}}", "initializers and the data cache are not run", "initializers and the data cache are not run"},
		{"an initializer of a model", "x", ref + "\n  initializer: {model: {storageUri: hf://x}}", "initializers and the data cache are not run", "initializers and the data cache are not run"},
		{"torchtune", "x", ref + "\n  trainer: {command: [tune, run], args: [recipe]}", "torchtune is not run", "torchtune is not run"},
		{"no nodes", "x", ref + "\n  trainer: {numNodes: 0}", "set 1 or more", "set 1 or more"},
		{"no processes", "x", ref + "\n  trainer: {numProcPerNode: 0}", "use a number from 1 on", ""},
		{"processes that are not a number", "x", ref + "\n  trainer: {numProcPerNode: many}", "use a number from 1 on", ""},
		{"a variable that torch sets", "x", ref + "\n  trainer: {env: [{name: A, value: b}, {name: PET_NNODES, value: '2'}]}", "", "spec.trainer.env[1]: PET_NNODES is set by the runtime; remove it"},
		{"a name that begins with a digit", "1x", ref, "must start with a letter", ""},
		{"a name too long for its last pod", strings.Repeat("a", 48), ref + "\n  trainer: {numNodes: 100}", "choose a shorter name", "choose a shorter or simpler one"},
		{"an unknown controller", "x", ref + "\n  managedBy: me", "use trainer.kubeflow.org/trainjob-controller", ""},
		{"no time", "x", ref + "\n  activeDeadlineSeconds: 0", "activeDeadlineSeconds", ""},
		{"a GPU that is requested without a limit", "x", ref + "\n  trainer: {resourcesPerNode: {requests: {nvidia.com/gpu: 1}}}", "requested without a limit", ""},
		{"a request unlike its limit", "x", ref + "\n  trainer: {resourcesPerNode: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}}", "differs from its limit", ""},
		{"an unknown field", "x", ref + "\n  trainers: {}", "unknown field spec.trainers", ""},
		{"a patch of a job that is not there", "x", ref + "\n  runtimePatches: [{manager: me, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: launcher}]}}}}]", "", "spec.runtimePatches[0]: the runtime has no job launcher; use node"},
		{"a patch of the environment", "x", ref + "\n  runtimePatches: [{manager: me, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {containers: [{name: node, env: [{name: A}]}]}}}}}]}}}}]", "", "set spec.trainer.env"},
		{"an override of a job that is not there", "x", ref + "\n  podTemplateOverrides: [{targetJobs: [{name: launcher}]}]", "the runtime has no such job; use node", "spec.podTemplateOverrides[0]: the runtime has no job launcher; use node"},
		{"an override of a job in the first spelling", "x", ref + "\n  podSpecOverrides: [{targetJobs: [{name: launcher}]}]", "the runtime has no such job; use node", "spec.podSpecOverrides[0]: the runtime has no job launcher; use node"},
		{"an override of a container that is not there", "x", ref + "\n  podSpecOverrides: [{targetJobs: [{name: node}], containers: [{name: side, volumeMounts: []}]}]", "", "the container side has no image"},
		{"two patches of one manager", "x", ref + "\n  runtimePatches: [{manager: me}, {manager: me}]", "Duplicate", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			object, wrong := newJudge(t, "trainjobs.trainer.kubeflow.org").read(t, fmt.Sprintf("metadata: {name: %s, namespace: ml}\nspec:\n  %s\n", tt.meta, tt.spec))
			if got := strings.Join(wrong, "\n"); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("the API server says %q, want %q", got, tt.want)
			}
			if tt.check == "" {
				return
			}
			o := trainJob(t, object)
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

// trainJob returns a TrainJob, with the runtime torch-distributed kept on it.
func trainJob(t *testing.T, object map[string]any) *trainer.TrainJob {
	t.Helper()
	o := &trainer.TrainJob{}
	raw, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(raw, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = json.Marshal(runtimes(t)["torch-distributed"].Object["spec"]); err != nil {
		t.Fatal(err)
	}
	o.Annotations = map[string]string{api.AnnotationRuntime: string(raw)}
	return o
}

// runtimes returns the runtimes that come with the definitions, by name.
func runtimes(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	list, err := crd.Bundles[0].Objects()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*unstructured.Unstructured{}
	for _, u := range list {
		out[u.GetName()] = u
	}
	return out
}

// TestWhatATrainJobCanSay has jobs in the spellings of versions 2.0, 2.1, and 2.2, and the runtimes that come with the definitions: all are stored as
// they are, with fields of pods that no schema here has.
func TestWhatATrainJobCanSay(t *testing.T) {
	for name, spec := range map[string]string{
		"2.2": `{runtimeRef: {name: torch-distributed}, suspend: true, activeDeadlineSeconds: 60, managedBy: kueue.x-k8s.io/multikueue, trainer: {image: x, command: [torchrun], args: [a], env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}], numNodes: 2, numProcPerNode: 4, resourcesPerNode: {limits: {nvidia.com/gpu: 4}, requests: {cpu: "2"}}}, runtimePatches: [{manager: "a.b/c", time: "2026-01-02T03:04:05Z", trainingRuntimeSpec: {template: {metadata: {labels: {a: b}}, spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {fieldOfTomorrow: 1, nodeSelector: {a: b}}}}}}]}}}}]}`,
		"2.1": `{runtimeRef: {name: torch-distributed, kind: TrainingRuntime, apiGroup: trainer.kubeflow.org}, labels: {a: b}, annotations: {c: d}, trainer: {numProcPerNode: auto}, podTemplateOverrides: [{targetJobs: [{name: node}], metadata: {labels: {a: b}}, spec: {tolerations: [{operator: Exists}]}}]}`,
		"2.0": `{runtimeRef: {name: torch-distributed}, trainer: {numProcPerNode: "2"}, podSpecOverrides: [{targetJobs: [{name: node}], serviceAccountName: x, containers: [{name: node, volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]}]}`,
	} {
		if _, wrong := newJudge(t, "trainjobs.trainer.kubeflow.org").read(t, "metadata: {name: x}\nspec: "+spec); len(wrong) > 0 {
			t.Errorf("%s: refused: %s", name, strings.Join(wrong, "\n"))
		}
	}
	for name, u := range runtimes(t) {
		text, err := yaml.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		if _, wrong := newJudge(t, "clustertrainingruntimes.trainer.kubeflow.org").read(t, string(text)); len(wrong) > 0 || u.GetLabels()[api.LabelManagedBy] != "berth" {
			t.Errorf("%s: %s", name, strings.Join(wrong, "\n"))
		}
	}
}
