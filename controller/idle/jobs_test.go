package idle_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/idle"
	rules "berth.dev/berth/core/idle"
	"berth.dev/berth/core/training"
	objects "berth.dev/berth/kube/training"
)

// rows: ML-75

const resnet = "resnet"

// jobStage is a stage with the PyTorchJob resnet, which has two workers with a GPU each and a master without.
type jobStage struct {
	*stage
	cpu  float64 // cores of a worker
	cpus rules.Result
	pods []*corev1.Pod
	slow bool // its pods stay when it is suspended
}

func newJobStage(t *testing.T, ofNamespace string, own map[string]string) *jobStage {
	t.Helper()
	j := &jobStage{cpus: rules.OK}
	o := &kubeflow.PyTorchJob{}
	o.Namespace, o.Name, o.UID, o.Annotations = ns, resnet, "u-1", own
	j.stage = newStage(t, o)
	if ofNamespace != "" {
		j.annotate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, map[string]string{api.AnnotationIdleAfter: ofNamespace})
	}
	for _, name := range []string{"master-0", "worker-0", "worker-1"} {
		p := podOf(resnet, corev1.ConditionTrue)
		p.Name, p.Labels, p.Status.Phase = resnet+"-"+name, nil, corev1.PodRunning
		if name != "master-0" {
			p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{api.ResourceGPU: resource.MustParse("1")}}}}
		}
		j.pods = append(j.pods, p)
	}
	j.restart()
	return j
}

func (j *jobStage) restart() {
	j.options.Prober = j
	j.loop = idle.NewJobsLoop(j.client, j.stage, j.options, idle.Jobs{
		Kind: training.PyTorchJob,
		List: func(ctx context.Context) (out []objects.Object, err error) {
			var list kubeflow.PyTorchJobList
			err = j.client.List(ctx, &list)
			for i := range list.Items {
				out = append(out, &list.Items[i])
			}
			return out, err
		},
		Pods: func(context.Context, client.Object) ([]*corev1.Pod, error) {
			if j.suspended() && !j.slow {
				return nil, nil // its controller has deleted them
			}
			return append([]*corev1.Pod(nil), j.pods...), nil
		},
	})
}

// GPUs implements idle.Prober.
func (j *jobStage) GPUs(ctx context.Context, pod *corev1.Pod) rules.GPUs {
	g := j.stage.GPUs(ctx, pod)
	g.Said = "no DCGM exporter runs on node node-1"
	return g
}

// CPU implements idle.Prober.
func (j *jobStage) CPU(_ context.Context, _, name string) rules.CPU {
	if strings.HasSuffix(name, "worker-1") {
		return rules.CPU{Result: j.cpus, Cores: j.cpu, Said: "the metrics API does not respond"}
	}
	return rules.CPU{Result: rules.OK}
}

func (j *jobStage) job() *kubeflow.PyTorchJob {
	j.t.Helper()
	o := &kubeflow.PyTorchJob{}
	if err := j.client.Get(context.Background(), client.ObjectKey{Namespace: ns, Name: resnet}, o); err != nil {
		j.t.Fatal(err)
	}
	return o
}

func (j *jobStage) suspended() bool { s := j.job().Spec.RunPolicy.Suspend; return s != nil && *s }

func TestTrainingJobsWithIdleGPUsAreSuspendedByTheirNamespacesPolicy(t *testing.T) {
	for _, tt := range []struct {
		name      string
		namespace string
		own       map[string]string
		gpu, cpu  float64
		gauged    rules.Result
		cpus      rules.Result
		suspended bool
		events    []string // parts of them, in order
	}{
		{"idle GPUs", "1h", nil, 0, 0, rules.OK, rules.OK, true, []string{
			"IdleWarning: suspended at 2026-11-21T09:", "unless its GPUs are used: nothing has happened in it for 50m, and it holds 6.0 GiB of GPU memory; its pods are then deleted",
			"kubectl annotate --overwrite pytorchjob resnet -n " + ns + " berth.dev/idle-after=never",
			"SuspendedIdle: suspended as idle: ", "to resume it: berth train resume resnet -n " + ns,
		}},
		{"without the metrics API", "1h", nil, 0, 0, rules.OK, rules.Absent, true, []string{"IdleWarning", "SuspendedIdle"}},
		{"busy GPUs", "1h", nil, 0.5, 0, rules.OK, rules.OK, false, nil},
		{"a pod that prepares data", "1h", nil, 0, 2, rules.OK, rules.OK, false, nil},
		{"a metrics API that fails", "1h", nil, 0, 0, rules.OK, rules.Failed, false, nil},
		{"an exporter that fails", "1h", nil, 0, 0, rules.Failed, rules.OK, false, nil},
		{"no exporter", "1h", nil, 0, 0, rules.Absent, rules.OK, false, []string{"IdleUnknown: never stopped as idle, because its activity is unknown: no DCGM exporter runs on node node-1"}},
		{"never, by its own annotation", "1h", map[string]string{api.AnnotationIdleAfter: "never"}, 0, 0, rules.OK, rules.OK, false, nil},
		{"a policy that cannot be read", "1h", map[string]string{api.AnnotationIdleAfter: "soon"}, 0, 0, rules.OK, rules.OK, false, []string{`IdlePolicy: annotations: "soon" is not a time without activity`}},
		{"the policy of notebooks only", "", map[string]string{api.AnnotationNotebookIdleAfter: "1h", api.AnnotationMaxSession: "1h"}, 0, 0, rules.OK, rules.OK, false, nil},
		{"no policy but the process's", "", nil, 0, 0, rules.OK, rules.OK, false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := newJobStage(t, tt.namespace, tt.own)
			j.gpu, j.gauged, j.cpu, j.cpus = tt.gpu, tt.gauged, tt.cpu, tt.cpus
			j.pass(3 * time.Hour)
			if j.suspended() != tt.suspended {
				t.Errorf("the job is suspended: %v, want %v", j.suspended(), tt.suspended)
			}
			if why := j.job().Annotations[api.AnnotationSuspendedFor]; strings.HasPrefix(why, "idle: nothing has happened in it for ") != tt.suspended {
				t.Errorf("its annotation says %q", why)
			}
			j.toldInOrder(t, tt.events)
		})
	}
}

func TestAJobThatIsResumedIsGivenTheWholeTimeAgain(t *testing.T) {
	j := newJobStage(t, "1h", nil)
	j.pass(2 * time.Hour)
	if !j.suspended() {
		t.Fatal("the job is not suspended")
	}
	o := j.job()
	o.Spec.RunPolicy.Suspend = new(false)
	if err := j.client.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for _, p := range j.pods {
		p.UID += "-again"
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(j.time())
	}
	j.pass(55 * time.Minute)
	if j.suspended() || j.job().Annotations[api.AnnotationSuspendedFor] != "" {
		t.Fatalf("after 55 minutes the job is suspended: %v; annotations: %v", j.suspended(), j.job().Annotations)
	}
	j.pass(10 * time.Minute)
	if !j.suspended() {
		t.Error("after 65 minutes the job is not suspended")
	}
}

func TestWhyAJobIsSuspendedStaysWhileItsPodsEnd(t *testing.T) {
	j := newJobStage(t, "1h", nil)
	j.slow = true
	j.pass(2 * time.Hour)
	if !j.suspended() || j.job().Annotations[api.AnnotationSuspendedFor] == "" {
		t.Errorf("the job is suspended: %v; annotations: %v", j.suspended(), j.job().Annotations)
	}
	if n := j.told("SuspendedIdle"); n != 1 {
		t.Errorf("%d events say that it is suspended, want 1", n)
	}
}

// A pod that is not ready may be loading data: the time begins when all are.
func TestAJobWithAPodThatIsNotReadyIsNotIdle(t *testing.T) {
	j := newJobStage(t, "1h", nil)
	j.pods[1].Status.Conditions[0].Status = corev1.ConditionFalse
	j.pass(3 * time.Hour)
	if j.suspended() || len(j.events) > 0 {
		t.Errorf("the job is suspended: %v; events: %q", j.suspended(), j.events)
	}
}
