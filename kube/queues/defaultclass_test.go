package queues_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// gives has a queue name classes for notebooks, training and serving; "" is none.
func gives(notebook, training, serving string) func(*v1alpha1.QueueSpec) {
	return func(s *v1alpha1.QueueSpec) {
		s.DefaultPriorityClasses = &v1alpha1.QueuePriorityClasses{Notebook: notebook, Training: training, Serving: serving}
	}
}

func below(parent string) func(*v1alpha1.QueueSpec) {
	return func(s *v1alpha1.QueueSpec) { s.Parent = parent }
}

// ours are the classes of a test's cluster.
func ours(class string) bool {
	return strings.HasPrefix(class, "gpu-") || strings.HasPrefix(class, "system-")
}

// rows: AS-63 AS-68
func TestWhichClassesQueuesGive(t *testing.T) {
	notebook, training, serving := request.WorkNotebook, request.WorkTraining, request.WorkServing
	type classes = map[request.Work]string
	for _, tt := range []struct {
		name   string
		queues []*v1alpha1.Queue
		want   queues.DefaultClasses
		says   string
	}{
		{"none where no queue names one", []*v1alpha1.Queue{queueOf("a", 1), queueOf("b", 2, gives("", "", ""))}, queues.DefaultClasses{}, ""},
		{
			"those that a queue names",
			[]*v1alpha1.Queue{queueOf("a", 1, gives("gpu-low", "gpu-normal", "gpu-critical"))},
			queues.DefaultClasses{"a": classes{notebook: "gpu-low", training: "gpu-normal", serving: "gpu-critical"}},
			"",
		},
		{"each kind of the nearest queue above that names one", []*v1alpha1.Queue{
			queueOf("org", 1, gives("gpu-low", "gpu-normal", "")), queueOf("team", 2, below("org")), queueOf("lab", 3, below("team"), gives("", "gpu-high", "gpu-critical")),
		}, queues.DefaultClasses{
			"org": classes{notebook: "gpu-low", training: "gpu-normal"}, "team": classes{notebook: "gpu-low", training: "gpu-normal"},
			"lab": classes{notebook: "gpu-low", training: "gpu-high", serving: "gpu-critical"},
		}, ""},
		{
			"none of the system, even where it exists",
			[]*v1alpha1.Queue{queueOf("a", 1, gives("gpu-low", "", "system-node-critical"))},
			queues.DefaultClasses{"a": classes{notebook: "gpu-low"}},
			"a spec.defaultPriorityClasses.serving: system-node-critical is a PriorityClass of the system, which no pod gets by default: name one of your own",
		},
		{
			"none that does not exist, and not the one above in its place",
			[]*v1alpha1.Queue{queueOf("org", 1, gives("", "gpu-normal", "")), queueOf("a", 2, below("org"), gives("", "gone", ""))},
			queues.DefaultClasses{"org": classes{training: "gpu-normal"}},
			`a spec.defaultPriorityClasses.training: there is no PriorityClass "gone": pods get none by default until there is`,
		},
		{
			"those of a circle of parents, each once around",
			[]*v1alpha1.Queue{queueOf("a", 1, below("b"), gives("gpu-low", "", "")), queueOf("b", 2, below("a"))},
			queues.DefaultClasses{"a": classes{notebook: "gpu-low"}, "b": classes{notebook: "gpu-low"}},
			"",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, problems := queues.NewDefaultClasses(tt.queues, ours)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if says := textOf(problems); says != tt.says {
				t.Errorf("it says %q, want %q", says, tt.says)
			}
		})
	}
}

// rows: AS-63
func TestWhichPodsGetADefaultClass(t *testing.T) {
	d, _ := queues.NewDefaultClasses([]*v1alpha1.Queue{queueOf("a", 1, gives("gpu-low", "gpu-normal", "gpu-critical"))}, ours)
	job := func(p *v1.Pod) { kubetest.Controlled(p, "Job", "j").OwnerReferences[0].APIVersion = "batch/v1" }
	for _, tt := range []struct {
		name string
		pod  *v1.Pod
		edit func(*v1.Pod)
		want string
	}{
		{"a notebook", kubetest.Pod("p", "", "nvidia.com/gpu", 1), func(p *v1.Pod) { p.Labels[api.LabelNotebook] = "nb" }, "gpu-low"},
		{"a Job", kubetest.Pod("p", "", "nvidia.com/mig-1g.5gb", 1), job, "gpu-normal"},
		{"a model server", kubetest.Pod("p", "", "nvidia.com/gpu", 1), func(p *v1.Pod) { p.Labels[api.LabelInferenceService] = "llm" }, "gpu-critical"},
		{"no pod of which it is not known what it is for", kubetest.Pod("p", "", "nvidia.com/gpu", 1), func(*v1.Pod) {}, ""},
		{"no Job without GPUs", kubetest.Pod("p", "", "cpu", 1), job, ""},
		{"a launcher without GPUs as its workers", kubetest.Pod("p", "", "cpu", 1), func(p *v1.Pod) { kubetest.Controlled(p, "MPIJob", "j") }, "gpu-normal"},
		{"no pod whose author names a class", kubetest.Pod("p", "", "nvidia.com/gpu", 1), func(p *v1.Pod) { job(p); p.Spec.PriorityClassName = "mine" }, ""},
		{"no pod whose author names a priority", kubetest.Pod("p", "", "nvidia.com/gpu", 1), func(p *v1.Pod) { job(p); p.Spec.Priority = new(int32(0)) }, ""},
		{"no pod whose author says whether it preempts", kubetest.Pod("p", "", "nvidia.com/gpu", 1), func(p *v1.Pod) { job(p); p.Spec.PreemptionPolicy = new(v1.PreemptLowerPriority) }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.edit(tt.pod)
			if got := d.Of(tt.pod, "a"); got != tt.want {
				t.Errorf("it gets %q, want %q", got, tt.want)
			}
			if got := d.Of(tt.pod, "other"); got != "" {
				t.Errorf("in a queue without classes it gets %q", got)
			}
		})
	}
}
