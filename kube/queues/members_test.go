package queues_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/kube/queues"
)

func takes(n v1alpha1.QueueNamespaces) func(*v1alpha1.QueueSpec) {
	return func(s *v1alpha1.QueueSpec) { s.Namespaces = &n }
}

func isDefault(s *v1alpha1.QueueSpec) { s.Default = true }

func namespace(name string, labels map[string]string) *v1.Namespace {
	return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func podOf(namespace, queue string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}
	if queue != "" {
		p.Labels = map[string]string{api.LabelQueue: queue}
	}
	return p
}

func TestMembers(t *testing.T) {
	team := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"team": name}}
	}
	m := queues.NewMembers([]*v1alpha1.Queue{
		queueOf("late", 9, takes(v1alpha1.QueueNamespaces{Names: []string{"a"}, Selector: team("b")})),
		queueOf("a", 1, takes(v1alpha1.QueueNamespaces{Names: []string{"a"}})),
		queueOf("b", 2, takes(v1alpha1.QueueNamespaces{Selector: team("b"), LabeledPods: []string{"a", "none"}})),
		queueOf("open", 3, takes(v1alpha1.QueueNamespaces{LabeledPods: []string{"*"}})),
		queueOf("rest", 4, isDefault), queueOf("rest2", 5, isDefault),
	})
	b := map[string]string{"team": "b"}
	for _, tt := range []struct {
		name string
		pod  *v1.Pod
		ns   *v1.Namespace
		want queues.Member
	}{
		{"the older of two queues that name a namespace has it", podOf("a", ""), namespace("a", nil), queues.Member{Queue: "a", Why: "spec.namespaces.names of Queue a"}},
		{"a name goes before a selector", podOf("a", ""), namespace("a", b), queues.Member{Queue: "a", Why: "spec.namespaces.names of Queue a"}},
		{"the older of two queues that select a namespace has it", podOf("x", ""), namespace("x", b), queues.Member{Queue: "b", Why: "spec.namespaces.selector of Queue b"}},
		{"the label of a namespace goes before names", podOf("a", ""), namespace("a", map[string]string{api.LabelQueue: "late"}), queues.Member{Queue: "late", Why: "label berth.dev/queue of namespace a"}},
		{"also where there is no such queue", podOf("a", ""), namespace("a", map[string]string{api.LabelQueue: "gone"}), queues.Member{Queue: "gone", Why: "label berth.dev/queue of namespace a"}},
		{"the older default takes what is left", podOf("x", ""), namespace("x", nil), queues.Member{Queue: "rest", Why: "Queue rest is the default"}},
		{"a namespace that is not known has no labels", podOf("x", ""), nil, queues.Member{Queue: "rest", Why: "Queue rest is the default"}},
		{"the label of a pod, where the queue takes pods of its namespace", podOf("a", "b"), namespace("a", nil), queues.Member{Queue: "b", Why: "the pod's label berth.dev/queue"}},
		{"the label of a pod, where the queue takes pods of all", podOf("x", "open"), namespace("x", nil), queues.Member{Queue: "open", Why: "the pod's label berth.dev/queue"}},
		{"the label of a pod that says what is so anyway", podOf("a", "a"), namespace("a", nil), queues.Member{Queue: "a", Why: "spec.namespaces.names of Queue a"}},
		{"the label of a pod that the queue does not take", podOf("x", "a"), namespace("x", nil), queues.Member{
			Queue: "rest", Why: "Queue rest is the default, as Queue a, which the pod's label berth.dev/queue names, does not list the namespace in spec.namespaces.labeledPods",
			Ignored: "Queue a, which the pod's label berth.dev/queue names, does not list the namespace in spec.namespaces.labeledPods", Named: "a", By: api.LabelQueue,
		}},
		{"the label of a pod that names no queue", podOf("x", "gone"), namespace("x", nil), queues.Member{
			Queue: "rest", Why: `Queue rest is the default, as there is no Queue "gone", which the pod's label berth.dev/queue names`,
			Ignored: `there is no Queue "gone", which the pod's label berth.dev/queue names`, Named: "gone", By: api.LabelQueue,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, m.Of(tt.pod, tt.ns)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
	if got := queues.NewMembers(nil).Of(podOf("x", ""), nil); got != (queues.Member{Queue: "", Why: "no Queue takes namespace x"}) {
		t.Errorf("without queues: %+v", got)
	}
	want := `a spec.namespaces.names: Queue late names namespace a, too; this one is older, and counts
b spec.namespaces.selector: Queue late selects namespace x, too; this one is older, and counts
gone metadata.name: there is no Queue "gone", which label berth.dev/queue of namespace y names
late spec.namespaces.names: Queue a, which is older, names namespace a, too; it counts there
late spec.namespaces.selector: Queue b, which is older, selects namespace x, too; it counts there
rest spec.default: Queue rest2 is the default queue, too; this one is older, and counts
rest2 spec.default: Queue rest, which is older, is the default queue, too; it counts there`
	if diff := cmp.Diff(want, textOf(m.Problems([]*v1.Namespace{namespace("x", b), namespace("a", b), namespace("y", map[string]string{api.LabelQueue: "gone", "team": "b"})}))); diff != "" {
		t.Errorf("problems -want +got\n%s", diff)
	}
}

func TestASelectorThatIsNoneSelectsNothing(t *testing.T) {
	m := queues.NewMembers([]*v1alpha1.Queue{queueOf("x", 0, takes(v1alpha1.QueueNamespaces{Selector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Likes"}},
	}}))})
	if got := m.OfNamespace(namespace("n", map[string]string{"team": "a"})); got.Queue != "" {
		t.Errorf("it takes the namespace: %+v", got)
	}
	if got := textOf(m.Problems(nil)); got != `x spec.namespaces.selector: not a selector: "Likes" is not a valid label selector operator` {
		t.Error(got)
	}
}

// TestMembersAreFoundAsBySearching compares with a search through all queues.
func TestMembersAreFoundAsBySearching(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 3))
		random := func() map[string]string {
			out := map[string]string{}
			for i := range 3 {
				if r.IntN(2) == 0 {
					out[fmt.Sprint("k", i)] = fmt.Sprint(r.IntN(2))
				}
			}
			return out
		}
		var list []*v1alpha1.Queue
		for i := range r.IntN(8) {
			n := v1alpha1.QueueNamespaces{}
			if r.IntN(3) == 0 {
				n.Names = []string{fmt.Sprint("n", r.IntN(4))}
			}
			if r.IntN(2) == 0 {
				n.Selector = &metav1.LabelSelector{MatchLabels: random()}
				if r.IntN(2) == 0 {
					n.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "k0", Operator: metav1.LabelSelectorOpExists}}
				}
			}
			q := queueOf(fmt.Sprint("q", i), r.IntN(3), takes(n))
			q.Spec.Default = r.IntN(6) == 0
			list = append(list, q)
		}
		m := queues.NewMembers(list)
		for range 5 {
			ns := namespace(fmt.Sprint("n", r.IntN(5)), random())
			if got, want := m.OfNamespace(ns).Queue, searched(t, list, ns); got != want {
				t.Fatalf("seed %d: namespace %s with %v enters %q, want %q", seed, ns.Name, ns.Labels, got, want)
			}
		}
	}
}

// searched is OfNamespace for a namespace without the label, step by step.
func searched(t *testing.T, list []*v1alpha1.Queue, ns *v1.Namespace) string {
	t.Helper()
	for _, level := range []func(*v1alpha1.Queue) bool{
		func(q *v1alpha1.Queue) bool { return slices.Contains(q.Spec.Namespaces.Names, ns.Name) },
		func(q *v1alpha1.Queue) bool {
			if q.Spec.Namespaces.Selector == nil {
				return false
			}
			s, err := metav1.LabelSelectorAsSelector(q.Spec.Namespaces.Selector)
			if err != nil {
				t.Fatal(err)
			}
			return s.Matches(labels.Set(ns.Labels))
		},
		func(q *v1alpha1.Queue) bool { return q.Spec.Default },
	} {
		var best *v1alpha1.Queue
		for _, q := range list {
			older := best == nil || q.CreationTimestamp.Before(&best.CreationTimestamp) || q.CreationTimestamp.Equal(&best.CreationTimestamp) && q.Name < best.Name
			if level(q) && older {
				best = q
			}
		}
		if best != nil {
			return best.Name
		}
	}
	return ""
}
