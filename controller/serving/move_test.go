package serving

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	rules "berth.dev/berth/core/serving"
	objects "berth.dev/berth/kube/serving"
)

const two = "spec: {predictor: {minReplicas: 2, tensorflow: {storageUri: 'pvc://model-storage/', resources: {limits: {nvidia.com/gpu: 1}}}}}"

// on is a ready pod on a node.
func on(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		ready(p)
		p.Spec.NodeName = node
	}
}

// cordon has a node cordoned, or not.
func (w *world) cordon(name string, is bool) {
	w.t.Helper()
	n := &corev1.Node{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Name: name}, n); err != nil {
		w.t.Fatal(err)
	}
	n.Spec.Unschedulable = is
	if err := w.client.Update(context.Background(), n); err != nil {
		w.t.Fatal(err)
	}
}

// end deletes a pod.
func (w *world) end(name string) {
	w.t.Helper()
	if err := w.client.Delete(context.Background(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ml"}}); err != nil {
		w.t.Fatal(err)
	}
}

// least is what the service's disruption budget asks for; -1 is that there is none.
func (w *world) least() int {
	w.t.Helper()
	b := &policyv1.PodDisruptionBudget{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "ml", Name: "mnist-predictor"}, b); err != nil {
		return -1
	}
	if !metav1.IsControlledBy(b, w.service()) || b.Spec.Selector.MatchLabels["app"] != "isvc.mnist-predictor" {
		w.t.Errorf("the budget is %+v", b)
	}
	return b.Spec.MinAvailable.IntValue()
}

// cost is the cost of ending a pod.
func (w *world) cost(name string) string {
	w.t.Helper()
	p := &corev1.Pod{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "ml", Name: name}, p); err != nil {
		w.t.Fatal(err)
	}
	return p.Annotations[corev1.PodDeletionCost]
}

// is checks how many replicas the Deployment asks for, and its budget.
func (w *world) is(when string, replicas int32, least int) {
	w.t.Helper()
	if n := *w.deployment().Spec.Replicas; n != replicas {
		w.t.Errorf("%s there are %d replicas, want %d", when, n, replicas)
	}
	if n := w.least(); n != least {
		w.t.Errorf("%s %d have to answer, want %d", when, n, least)
	}
}

func nodes() []client.Object {
	return []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c"}}}
}

func TestAReplicaMovesBeforeItsNodeIsDrained(t *testing.T) {
	w := newWorld(t, two, nodes()...)
	w.pass()
	w.pod("p", on("a"))
	w.pod("q", on("b"))
	w.pass()
	w.is("at rest", 2, 1)
	w.cordon("a", true)
	w.pass()
	w.is("when a node is cordoned", 3, 2)
	if w.cost("p") != objects.CostOfLeaving || w.cost("q") != "" {
		t.Errorf("the costs are %q and %q", w.cost("p"), w.cost("q"))
	}
	w.says("Ready", "True", "2 of 2 replicas ready; a replica moves, as node a is cordoned")
	if n := w.pass(); n != 0 {
		t.Errorf("a pass that waits for the new replica writes %d times", n)
	}
	w.start()
	if n := w.pass(); n != 0 {
		t.Errorf("the first pass of a new process writes %d times", n)
	}
	w.pod("r", on("c"))
	w.pass()
	w.is("when the new one answers", 2, 2)
	w.end("p")
	w.pass()
	w.is("when the old one has ended", 2, 1)
	w.says("Ready", "True", "MinimumReplicasAvailable: 2 of 2 replicas ready")
	if n := w.pass(); n != 0 {
		t.Errorf("a pass over a service at rest writes %d times", n)
	}
}

func TestAMoveWithoutRoom(t *testing.T) {
	w := newWorld(t, two, nodes()...)
	w.pass()
	w.pod("p", on("a"))
	w.pod("q", on("b"))
	w.cordon("a", true)
	w.pass()
	w.pod("r", waits)
	w.pass()
	w.is("without room", 3, 1)
	w.says("Ready", "True", "a replica is to move, as node a is cordoned, and the one for its place waits: no node has a free GPU")
	w.cordon("a", false)
	w.pass()
	w.is("when the node stays after all", 2, 1)
	if w.cost("p") != "" {
		t.Errorf("a pod whose node stays costs %s", w.cost("p"))
	}
}

func TestMovesDoNotCountAsReplicasThatRequestsNeed(t *testing.T) {
	w := newWorld(t, tensorflow, nodes()...)
	w.traffic = &rules.Traffic{InFlight: 1, Stable: 1, Panic: 1, Last: w.now, Since: w.now}
	w.pass()
	w.pod("p", on("a"))
	w.cordon("a", true)
	w.pass()
	w.is("when a node is cordoned", 2, 1)
	w.traffic.Partial = true // then no replica is ended, and none more is wanted
	for range 3 {
		w.pass()
	}
	w.is("after more passes", 2, 1)
	w.pod("q", on("b"))
	w.pass()
	w.is("when the new one answers", 1, 1)
}

func TestABudgetOfTheUserCounts(t *testing.T) {
	own := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "own", Namespace: "ml"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{api.LabelInferenceService: "mnist"}}}}
	w := newWorld(t, two, append(nodes(), own)...)
	w.pass()
	w.pod("p", on("a"))
	w.pod("q", on("b"))
	w.cordon("a", true)
	w.pass()
	w.is("beside a budget of the user's", 3, -1)
	if err := w.client.Delete(context.Background(), own); err != nil {
		t.Fatal(err)
	}
	w.pass()
	w.is("without it", 3, 2)
	own.ResourceVersion = ""
	if err := w.client.Create(context.Background(), own); err != nil {
		t.Fatal(err)
	}
	w.pass()
	w.is("when it is there again", 3, -1)
}

// change writes another form of the service.
func (w *world) change(edit func(o *kserve.InferenceService)) {
	w.t.Helper()
	o := w.service()
	edit(o)
	if err := w.client.Update(context.Background(), o); err != nil {
		w.t.Fatal(err)
	}
	w.pass()
}

func TestReplicasAreEvictedOneAfterTheOther(t *testing.T) {
	scale := func(from, to string) func(*kserve.InferenceService) {
		return func(o *kserve.InferenceService) {
			o.Spec.Raw = []byte(strings.Replace(string(o.Spec.Raw), `"minReplicas":`+from, `"minReplicas":`+to, 1))
		}
	}
	note := func(value string) func(*kserve.InferenceService) {
		return func(o *kserve.InferenceService) {
			o.Annotations = map[string]string{api.AnnotationDisruptionBudget: value}
		}
	}
	w := newWorld(t, two, nodes()...)
	w.pass()
	w.is("before any answers", 2, 1)
	w.pod("p", on("a"))
	w.pod("q", on("b"))
	w.pass()
	if n := w.pass(); n != 0 {
		t.Errorf("a pass over a service at rest writes %d times", n)
	}
	w.change(scale("2", "3"))
	w.is("with three replicas", 3, 2)
	w.change(scale("3", "1"))
	w.is("with a single replica", 1, -1)
	w.change(scale("1", "2"))
	w.is("with two again", 2, 1)
	w.change(note("none"))
	w.is("where the user wants none", 2, -1)
	w.change(note("two"))
	w.says("Ready", "False", `InvalidPredictorSpec: annotation berth.dev/disruption-budget: "two" is not a valid value; use none, or write a PodDisruptionBudget, which takes the place of Berth's`)
	w.change(note(""))
	w.is("where the user says nothing", 2, 1)
	w.change(func(o *kserve.InferenceService) { o.Annotations = map[string]string{kserve.AnnotationStop: "true"} })
	w.is("when it is stopped", 0, -1)
}

func TestARolloutMovesReplicasItself(t *testing.T) {
	w := newWorld(t, two, nodes()...)
	w.pass()
	w.pod("p", on("a"))
	w.pod("q", on("b"))
	o := w.service()
	o.Spec.Raw = []byte(strings.Replace(string(o.Spec.Raw), `"tensorflow":{`, `"tensorflow":{"args":["--new"],`, 1))
	if err := w.client.Update(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	w.cordon("a", true)
	w.pass()
	w.is("during a rollout", 2, 2)
}
