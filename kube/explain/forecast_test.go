package explain_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/runs"
)

// declares has a pod say how long it runs at most.
func declares(d time.Duration) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Annotations = map[string]string{api.AnnotationMaxRunTime: d.String()} }
}

// inGang makes a pod a member of a gang of so many.
func inGang(name string, least int) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Annotations = map[string]string{api.AnnotationGang: name, api.AnnotationGangMinCount: fmt.Sprint(least), api.AnnotationMaxRunTime: "1h"}
	}
}

// TestStartsOfAllThatWait has one node with four GPUs, held until one and until two hours after noon, as kubetest has it.
func TestStartsOfAllThatWait(t *testing.T) {
	holds := func(name string, first, count int, edit func(*v1.Pod)) *v1.Pod {
		var ids []string
		for k := range count {
			ids = append(ids, inventoryID("n", first+k))
		}
		p := kubetest.Observed(kubetest.Pod(name, "n", api.ResourceGPU, count), api.ResourceGPU, ids...)
		edit(p)
		return p
	}
	node := kubetest.Inventory("n", kubetest.A100s("n", 4), "cpu", 64, api.ResourceGPU, 4)
	gated := kubetest.Unplaced("gated", time.Minute, 1, declares(time.Hour))
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "later"}}
	elsewhere := kubetest.Unplaced("elsewhere", 2*time.Minute, 1, declares(time.Hour))
	elsewhere.Spec.NodeSelector = map[string]string{"no": "such"}
	pods := []*v1.Pod{
		holds("a", 0, 2, declares(time.Hour)), holds("b", 2, 2, declares(2*time.Hour)), gated, elsewhere,
		kubetest.Unplaced("g-0", 3*time.Minute, 2, inGang("g", 2)), kubetest.Unplaced("g-1", 3*time.Minute, 2, inGang("g", 2)),
		kubetest.Unplaced("alone", 4*time.Minute, 1, inGang("incomplete", 2)),
		kubetest.Unplaced("short", 5*time.Minute, 2, declares(30*time.Minute)),
		kubetest.Unplaced("long", 6*time.Minute, 1, declares(5*time.Hour)),
		kubetest.Unplaced("last", 7*time.Minute, 4, declares(time.Hour)),
	}
	c, err := explain.NewCluster([]*v1.Node{node}, pods)
	if err != nil {
		t.Fatal(err)
	}
	now := kubetest.Started.Add(10 * time.Minute)
	starts, err := c.Starts(pods, queue.NewRunTimes(), nil, explain.KnownEnds{}, now)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for unit, l := range starts {
		if !l.At.Equal(l.By) {
			t.Errorf("%s: %v, and by %v, though all run times are declared", unit, l.At, l.By)
		}
		got[unit[strings.LastIndex(unit, "/")+1:]] = l.At.Sub(kubetest.Started).String()
	}
	want := map[string]string{"g": "2h0m0s", "short": "1h0m0s", "long": "3h0m0s", "last": "8h0m0s"}
	if !maps.Equal(got, want) {
		t.Errorf("starts after noon: %v, want %v", got, want)
	}
}

// TestAQueueThatEndsItsWorkloadsTellsWhenThereIsRoom: the holder declares nothing, and what waits before the last one declares nothing either,
// but workloads of a queue above theirs run for two hours at most.
func TestAQueueThatEndsItsWorkloadsTellsWhenThereIsRoom(t *testing.T) {
	node := kubetest.Inventory("n", kubetest.A100s("n", 1), "cpu", 64, api.ResourceGPU, 1)
	holder := kubetest.Observed(kubetest.Pod("a", "n", api.ResourceGPU, 1), api.ResourceGPU, inventoryID("n", 0))
	first, last := kubetest.Unplaced("first", time.Minute, 1), kubetest.Unplaced("last", 2*time.Minute, 1, declares(time.Hour))
	nodes, pods := []*v1.Node{node}, []*v1.Pod{holder, first, last}
	now := kubetest.Started.Add(10 * time.Minute)
	queueOf := func(name, parent, most string, isDefault bool) *v1alpha1.Queue {
		return &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{Parent: parent, MaxRunTime: most, Default: isDefault}}
	}
	c := trial(t, nodes, pods...)
	c.SetQueues(queues.Read(&queues.Situation{
		Queues:     []*v1alpha1.Queue{queueOf("org", "", "2h", false), queueOf("red", "org", "3h", true)},
		Namespaces: []*v1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}}, Nodes: nodes, Pods: pods, Now: now,
	}))
	at := func(d time.Duration) string { return kubetest.Started.Add(d).UTC().Format("15:04 UTC") }
	o := c.StartEstimate(first, pods, explain.KnownEnds{}, now)
	if got, want := o.Text(now), "room at the latest at "+at(2*time.Hour+time.Minute)+", when ns/a reaches the maxRunTime of its queue"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	starts, err := c.Starts(pods, queue.NewRunTimes(), nil, explain.KnownEnds{}, now)
	if err != nil {
		t.Fatal(err)
	}
	for pod, want := range map[*v1.Pod]time.Duration{first: 2 * time.Hour, last: 4 * time.Hour} {
		if got := starts[queues.Workload(pod)].At.Sub(kubetest.Started); got != want {
			t.Errorf("%s likely starts %s after noon, want %s", pod.Name, got, want)
		}
	}
}

// TestAStartRestsOnEarlierPodsLikeTheHolder: the holder says nothing, and ten like it ran for 1 to 10 hours.
func TestAStartRestsOnEarlierPodsLikeTheHolder(t *testing.T) {
	node := kubetest.Inventory("n", kubetest.A100s("n", 1), "cpu", 64, api.ResourceGPU, 1)
	holder := kubetest.Observed(kubetest.Pod("a", "n", api.ResourceGPU, 1), api.ResourceGPU, inventoryID("n", 0))
	w, pods := kubetest.Unplaced("w", time.Minute, 1), []*v1.Pod{holder}
	pods = append(pods, w)
	now := kubetest.Started.Add(90 * time.Minute)
	s := explain.Situation{Pod: w, Nodes: []*v1.Node{node}, Pods: pods, RunTimes: queue.NewRunTimes()}
	text := func() string {
		t.Helper()
		found, err := explain.Find(&s, now)
		if err != nil {
			t.Fatal(err)
		}
		return found.Start.Text(now)
	}
	if got := text(); got != "unknown: ns/a, which holds these GPUs, has no end that is known" {
		t.Errorf("while nothing is known: %q", got)
	}
	for i := range 10 {
		s.RunTimes.Ended(runs.TemplateOf(holder), time.Duration(i+1)*time.Hour)
	}
	at := func(h int) string {
		return kubetest.Started.Add(time.Duration(h) * time.Hour).UTC().Format("15:04 UTC")
	}
	got := text()
	if !slices.ContainsFunc([]int{5, 6, 7}, func(h int) bool {
		return strings.HasPrefix(got, "likely about "+at(h)+", in nine of ten cases by ")
	}) || !strings.HasSuffix(got, ", by how long earlier workloads ran") {
		t.Errorf("it says %q", got)
	}
}

// TestStartsOfPodsThatAskTheSameInDifferentQueues has two pods alike, and a node that shares its GPU, which one queue does not allow.
func TestStartsOfPodsThatAskTheSameInDifferentQueues(t *testing.T) {
	labels := kubetest.With(kubetest.Product("Tesla-T4-SHARED", 1, 15360), api.LabelReplicas, "2")
	nodes := []*v1.Node{kubetest.Foreign("shared", labels, "cpu", 8, api.ResourceGPU, 2)}
	pods := []*v1.Pod{kubetest.Pod("a", "shared", api.ResourceGPU, 1), kubetest.Pod("b", "shared", api.ResourceGPU, 1)}
	for _, holder := range pods {
		declares(time.Hour)(holder)
	}
	var list []*v1alpha1.Queue
	for i, way := range []v1alpha1.QueueSharing{"Whole", "TimeSlicing"} {
		name := strings.ToLower(string(way))
		pods = append(pods, kubetest.Unplaced("in-"+name, time.Duration(i)*time.Minute, 1, declares(time.Hour), func(p *v1.Pod) { p.Labels[api.LabelQueue] = name }))
		list = append(list, &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{
			Namespaces: &v1alpha1.QueueNamespaces{LabeledPods: []string{"*"}}, Sharing: []v1alpha1.QueueSharing{way},
		}})
	}
	s := explain.Situation{Nodes: nodes, Pods: pods, RunTimes: queue.NewRunTimes(), Queues: queues.Read(&queues.Situation{
		Queues: list, Namespaces: []*v1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}}, Nodes: nodes, Pods: pods,
	})}
	starts, err := s.Starts(kubetest.Started.Add(10 * time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	for unit, want := range map[string]bool{"in-whole": false, "in-timeslicing": true} {
		if _, known := starts[unit]; known != want {
			t.Errorf("%s has an estimate: %v; all are %v", unit, known, starts)
		}
	}
}
