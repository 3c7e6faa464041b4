package can_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/can"
	"berth.dev/berth/kube/serving"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	u.SetNamespace("default")
	return u
}

// summary is a Workload in a line: its pods, how many start together, and what is said of it.
func summary(w *can.Workload) string {
	names := []string{}
	for _, p := range w.Pods {
		names = append(names, fmt.Sprintf("%s:%s", p.Name, p.Spec.Containers[0].Image))
	}
	out := strings.Join(names, " ")
	if w.Need > 0 {
		out += fmt.Sprintf(" (%d together)", w.Need)
	}
	for _, text := range []string{w.Never, w.Later, w.Guess} {
		if text != "" {
			text, _, _ = strings.Cut(text, ";")
			out += "; " + text
		}
	}
	return strings.TrimPrefix(strings.TrimSpace(out), "; ")
}

const pod = "{metadata: {labels: {a: b}}, spec: {containers: [{name: pytorch, image: i}]}}"

func TestWhichPodsAnObjectMakes(t *testing.T) {
	for _, tt := range []struct {
		name, text, want string
	}{
		{"a Pod", "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}", "a:i"},
		{"a Service has none", "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 80}]}}", ""},
		{"a model service", "{apiVersion: serving.kserve.io/v1beta1, kind: InferenceService, metadata: {name: a}, spec: {predictor: {minReplicas: 2, maxReplicas: 3, tensorflow: {image: i, resources: {limits: {nvidia.com/gpu: 1}}}}}}", "a-0:i a-1:i; minReplicas is judged, 2: more replicas start when requests need them"},
		{"a model service that may have none", "{apiVersion: serving.kserve.io/v1beta1, kind: InferenceService, metadata: {name: a}, spec: {predictor: {minReplicas: 0, containers: [{name: c, image: i}]}}}", "a-0:i; minReplicas is 0, so its first replica starts with the first request"},
		{"a model service with a transformer", "{apiVersion: serving.kserve.io/v1beta1, kind: InferenceService, metadata: {name: a}, spec: {predictor: {minReplicas: 2, tensorflow: {image: i}}, transformer: {containers: [{image: t}]}}}", "a-0:i a-1:i a-2:t"},
		{"a model service that cannot run", "{apiVersion: serving.kserve.io/v1beta1, kind: InferenceService, metadata: {name: a}, spec: {explainer: {}, predictor: {sklearn: {}}}}", "the service cannot run: spec.explainer is not served"},
		{"a Deployment of 2", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 2, template: " + pod + "}}", "a-0:i a-1:i"},
		{"a Deployment of none", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 0, template: " + pod + "}}", ""},
		{"a paused Deployment", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {paused: true, template: " + pod + "}}", "a-0:i; spec.paused is set"},
		{"a StatefulSet", "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {replicas: 2, template: " + pod + "}}", "a-0:i a-1:i"},
		{"a Notebook", "{apiVersion: kubeflow.org/v1, kind: Notebook, metadata: {name: a}, spec: {template: " + pod + "}}", "a-0:i"},
		{"a Job", "{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {template: " + pod + "}}", "a-0:i"},
		{"a Job runs no more than are left to complete", "{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {parallelism: 3, completions: 2, template: " + pod + "}}", "a-0:i a-1:i"},
		{
			"a Job whose pods are a gang", "{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {parallelism: 2, template: {metadata: {annotations: {" + api.AnnotationGang + ": g}}, spec: {containers: [{name: c, image: i}]}}}}",
			"a-0:i a-1:i (2 together)",
		},
		{"a suspended Job", "{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {suspend: true, template: " + pod + "}}", "a-0:i; spec.suspend is set, so it makes no pods"},
		{"a Job that is resumed in its turn", "{apiVersion: batch/v1, kind: Job, metadata: {name: a, annotations: {" + api.AnnotationResume + ": " + api.ResumeInTurn + "}}, spec: {suspend: true, template: " + pod + "}}", "a-0:i (1 together)"},
		{
			"a CronJob", "{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {schedule: '0 3 * * *', jobTemplate: {spec: {template: " + pod + "}}}}",
			`a-0:i; it makes its pods by its schedule "0 3 * * *"`,
		},
		{
			"a PyTorchJob is a gang", "{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: a}, spec: {pytorchReplicaSpecs: {Master: {replicas: 1, template: " + pod + "}, Worker: {replicas: 2, template: " + pod + "}}}}",
			"a-master-0:i a-worker-0:i a-worker-1:i (3 together)",
		},
		{
			"a job that cannot run", "{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: a}, spec: {pytorchReplicaSpecs: {Master: {replicas: 2, template: " + pod + "}}}}",
			`the job cannot run: spec.pytorchReplicaSpecs[Master].replicas: a job has one Master`,
		},
		{
			"a JobSet of another project", "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a}, spec: {replicatedJobs: [{name: x, replicas: 2, template: {spec: {parallelism: 2, template: " + pod + "}}}]}}",
			"a-0:i a-1:i a-2:i a-3:i",
		},
		{
			"a kind that is not known", "{apiVersion: example.com/v1, kind: Farm, metadata: {name: a}, spec: {replicas: 2, worker: {containers: [{name: c, image: i}]}}}",
			"a-0:i a-1:i; how many pods a Farm makes is not known: those of its templates are judged, each as often as the fields replicas and parallelism say",
		},
		{"a runtime makes none", "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: ClusterTrainingRuntime, metadata: {name: a}, spec: {template: {spec: {replicatedJobs: [{template: {spec: {template: " + pod + "}}}]}}}}", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, err := can.Of(object(t, tt.text), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, summary(w)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, p := range w.Pods {
				if p.Namespace != "default" {
					t.Errorf("pod %s is in namespace %q", p.Name, p.Namespace)
				}
			}
		})
	}
}

func TestNoMorePodsThanAreJudged(t *testing.T) {
	w, err := can.Of(object(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 2000000000, template: "+pod+"}}"), nil)
	if err != nil || len(w.Pods) != can.MostPods {
		t.Errorf("%d pods, %v; want %d", len(w.Pods), err, can.MostPods)
	}
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	if w, err := can.Of(object(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {template: {spec: {containers: [{image: [1]}]}}}}"), nil); err == nil {
		t.Errorf("%+v, want an error", w)
	}
}

func TestGangsOfPods(t *testing.T) {
	gang := func(notes map[string]string) []*v1.Pod {
		return []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Annotations: notes}}, {}, {}}
	}
	for _, tt := range []struct {
		name  string
		notes map[string]string
		want  int
	}{
		{"none", nil, 0},
		{"no number, which the scheduler refuses", map[string]string{api.AnnotationGang: "g"}, 0},
		{"more than there are", map[string]string{api.AnnotationGang: "g", api.AnnotationGangMinCount: "7"}, 3},
		{"as many as they say", map[string]string{api.AnnotationGang: "g", api.AnnotationGangMinCount: "2"}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := can.Together(gang(tt.notes)); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestAModelServiceHasTheContainerOfItsRuntime(t *testing.T) {
	const service = "{apiVersion: serving.kserve.io/v1beta1, kind: InferenceService, metadata: {name: a}, spec: {predictor: {model: {modelFormat: {name: FORMAT}, storageUri: 'pvc://m', resources: {limits: {nvidia.com/gpu: 1}}}}}}"
	server, err := can.Server(object(t, "{apiVersion: serving.kserve.io/v1alpha1, kind: ClusterServingRuntime, metadata: {name: r}, spec: {supportedModelFormats: [{name: sklearn, autoSelect: true}], protocolVersions: [v1], containers: [{name: kserve-container, image: 'server:1', resources: {requests: {cpu: 7}}}]}}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, format string
		servers      []*serving.Runtime
		want         string
	}{
		{"of the format", "sklearn", []*serving.Runtime{server}, "server:1, 7 CPU, 1 GPU; "},
		{"that nothing serves", "onnx", []*serving.Runtime{server}, "the service cannot run: "},
		{"where there is no runtime", "sklearn", []*serving.Runtime{}, "the service cannot run: "},
		{"where runtimes cannot be read", "sklearn", nil, "not-known, 0 CPU, 1 GPU; the runtime of the model is not known, "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, err := can.Of(object(t, strings.Replace(service, "FORMAT", tt.format, 1)), tt.servers)
			if err != nil {
				t.Fatal(err)
			}
			got := w.Never
			if len(w.Pods) == 1 {
				c := &w.Pods[0].Spec.Containers[0]
				gpus := c.Resources.Limits["nvidia.com/gpu"]
				got = fmt.Sprintf("%s, %s CPU, %s GPU; %s", c.Image, c.Resources.Requests.Cpu(), gpus.String(), w.Guess)
			}
			if !strings.HasPrefix(got, tt.want) {
				t.Errorf("it makes %q, want %q", got, tt.want)
			}
		})
	}
}
