package queues_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/queues"
)

// classOfLine is a WorkloadPriorityClass as an API server serves it.
func classOfLine(name string, value any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": map[string]any{"name": name}, "value": value}}
}

func TestWhichPriorityCountsInTheLine(t *testing.T) {
	lines := queues.NewLinePriorities([]*unstructured.Unstructured{classOfLine("urgent", int64(100)), classOfLine("late", int64(-5)), classOfLine("broken", "high")})
	object := func(name, class string, of *metav1.ObjectMeta) *metav1.ObjectMeta {
		o := &metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}
		if class != "" {
			o.Labels = map[string]string{api.LabelKueuePriority: class}
		}
		if of != nil {
			o.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: of.Name, UID: of.UID, Controller: new(true)}}
		}
		return o
	}
	set, job := object("set", "late", nil), object("job", "urgent", nil)
	under := object("under", "", set)
	circle := object("circle", "", nil)
	circle.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "circle", UID: "circle", Controller: new(true)}}
	all := map[string]*metav1.ObjectMeta{"set": set, "job": job, "under": under, "circle": circle}
	owners := func(namespace string, ref *metav1.OwnerReference) metav1.Object {
		if o := all[ref.Name]; o != nil && namespace == "ns" {
			return o
		}
		return nil
	}
	another := object("pod", "", job)
	another.OwnerReferences[0].UID = "the-one-before"
	for _, tt := range []struct {
		name string
		of   metav1.Object
		want *int32
	}{
		{"that of the pod's class", object("pod", "urgent", nil), new(int32(100))},
		{"that of the pod before that of its Job", object("pod", "late", job), new(int32(-5))},
		{"that of the Job of the pod", object("pod", "", job), new(int32(100))},
		{"that of what created the Job of the pod", object("pod", "", under), new(int32(-5))},
		{"0 of a class without a value", object("pod", "broken", nil), new(int32(0))},
		{"none of a class that does not exist", object("pod", "gone", job), nil},
		{"none where no class is named", object("pod", "", nil), nil},
		{"none of an owner of another life", another, nil},
		{"none of a circle of owners", object("pod", "", circle), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := lines.Of(tt.of, owners)
			if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
				t.Errorf("the priority is %v, want %v", got, tt.want)
			}
			if got := queues.LinePriorities(nil).Of(tt.of, owners); got != nil {
				t.Errorf("without classes it is %d", *got)
			}
		})
	}
}

// TestTheCountOrdersLinesByThem counts a cluster in which an older pod, a newer one that names a class
// of its own, and a suspended Job that names one wait.
func TestTheCountOrdersLinesByThem(t *testing.T) {
	lines := queues.LinePriorities{"urgent": 100, "late": -5}
	holds, first, second := kubetest.Pod("holds", "n", "nvidia.com/gpu", 1), kubetest.Pod("first", "", "nvidia.com/gpu", 1), kubetest.Pod("second", "", "nvidia.com/gpu", 1)
	second.Labels[api.LabelKueuePriority] = "urgent"
	j := train()
	j.Labels = map[string]string{api.LabelKueuePriority: "late"}
	q := queueOf("vision", 0, isDefault, func(s *v1alpha1.QueueSpec) {
		s.Quotas = []v1alpha1.QueueQuota{{GPUs: v1alpha1.GPUsAll, Nominal: *amount("1")}}
	})
	c := queues.Read(&queues.Situation{
		Queues: []*v1alpha1.Queue{q}, Pods: []*v1.Pod{holds, first, second}, Suspended: []*queues.Suspended{queues.Of(j, nil)},
		Line: func(o metav1.Object) *int32 { return lines.Of(o, nil) },
	})
	var got []string
	for _, w := range c.Book.Waiting("vision") {
		got = append(got, w.ID)
	}
	if len(got) != 3 || got[0] != "second" || got[1] != "first" || got[2] != "uid" {
		t.Errorf("in line are %v, want the pod with a class, the other, and the Job with a low class", got)
	}
}
