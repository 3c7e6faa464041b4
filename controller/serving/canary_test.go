package serving

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kserve"
	rules "berth.dev/berth/core/serving"
	objects "berth.dev/berth/kube/serving"
)

// withShare is the service with an argument of the model's server, two replicas, and a share of its newest revision; "" is none.
func (w *world) withShare(arg, share string) {
	w.t.Helper()
	if share != "" {
		share = `"canaryTrafficPercent":` + share + `,`
	}
	o := w.service()
	o.Spec.Raw = fmt.Appendf(nil, `{"predictor":{%s"minReplicas":2,"tensorflow":{"args":[%q],"storageUri":"pvc://model-storage/","resources":{"limits":{"nvidia.com/gpu":1}}}}}`, share, arg)
	if err := w.client.Update(context.Background(), o); err != nil {
		w.t.Fatal(err)
	}
	w.pass()
}

// canaryDeployment is that of the canary, or nil.
func (w *world) canaryDeployment() *appsv1.Deployment {
	return w.deploymentOf("mnist-predictor-canary")
}

// canaryPod adds a pod of the canary as it is now.
func (w *world) canaryPod(name string, change func(*corev1.Pod)) {
	w.t.Helper()
	w.podOf(w.canaryDeployment(), name, change)
}

func (w *world) deletePod(name string) {
	w.t.Helper()
	if err := w.client.Delete(context.Background(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ml"}}); err != nil {
		w.t.Fatal(err)
	}
}

// argOf is the argument of the server of a Deployment, with the number of its replicas; "" is that there is no Deployment.
func argOf(d *appsv1.Deployment) string {
	if d == nil {
		return ""
	}
	return fmt.Sprint(d.Spec.Template.Spec.Containers[0].Args, " ", *d.Spec.Replicas)
}

// split is how requests are divided, as both Services of the service say it: "<revision>=<percent>" with the revision's argument.
func (w *world) split() string {
	w.t.Helper()
	said := map[string]bool{}
	for _, name := range []string{"mnist", "mnist-predictor"} {
		s := &corev1.Service{}
		if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "ml", Name: name}, s); err != nil {
			w.t.Fatal(err)
		}
		said[s.Annotations[api.AnnotationSplit]] = true
	}
	if len(said) != 1 {
		w.t.Fatalf("the Services say different things: %v", said)
	}
	text := slices.Collect(maps.Keys(said))[0]
	if d := w.canaryDeployment(); d != nil {
		text = strings.Replace(text, d.Spec.Template.Annotations[api.AnnotationServingSpec], d.Spec.Template.Spec.Containers[0].Args[0], 1)
	}
	return text
}

// asked is that so many requests to each revision were answered, some of the canary's with errors.
func (w *world) asked(percent, stable, canary, errors int) {
	s := &rules.Split{Revision: w.canaryDeployment().Spec.Template.Annotations[api.AnnotationServingSpec], Percent: percent}
	s.Stable.Answers, s.Canary.Answers, s.Canary.Errors = stable, canary, errors
	s.Stable.Times[10], s.Canary.Times[10] = stable, canary-errors
	w.traffic = &rules.Traffic{Since: w.now, Last: w.now, Split: s}
}

// canaryWorld is a service whose revision a answers with two replicas, and whose revision b is a canary of 20 %.
func canaryWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, tensorflow)
	w.traffic = &rules.Traffic{}
	w.withShare("a", "")
	w.pod("p", ready)
	w.pod("q", ready)
	w.pass()
	w.now = w.now.Add(time.Second)
	w.withShare("b", "20")
	return w
}

func TestACanaryRunsBesideTheRevisionBefore(t *testing.T) {
	w := canaryWorld(t)
	if main, canary := argOf(w.deployment()), argOf(w.canaryDeployment()); main != "[a] 2" || canary != "[b] 1" {
		t.Fatalf("the Deployments have %q and %q", main, canary)
	}
	w.canaryPod("c", waits)
	w.pass()
	w.says("Ready", "True", "Canary: 2 of 2 replicas ready; the new revision is to get 20% of the requests, and waits: no node has a free GPU")
	w.says("GPUQueued", "True", "no node has a free GPU")
	if got := w.service().Status.Components[kserve.ComponentPredictor].Traffic; len(got) != 2 || got[0].Percent != 0 || got[1].Percent != 100 {
		t.Errorf("while it waits, the shares are %+v", got)
	}
	w.deletePod("c")
	w.canaryPod("d", ready)
	w.asked(20, 80, 20, 0)
	w.pass()
	w.says("Ready", "True", "Canary: 2 of 2 replicas ready; the new revision gets 20% of the requests")
	w.says("Canary", "True", "Canary: the new revision gets 20% of the requests")
	got := w.service().Status.Components[kserve.ComponentPredictor]
	want := []kserve.Traffic{
		{RevisionName: got.LatestCreatedRevision, LatestRevision: true, Percent: 20, Tag: "latest", Answers: 20, P95: "9.3ms"},
		{RevisionName: got.LatestRolledoutRevision, Percent: 80, Tag: "prev", Answers: 80, P95: "9.3ms"},
	}
	if !slices.Equal(got.Traffic, want) || w.split() != "b=20" {
		t.Errorf("the shares are %+v, want %+v; the Services say %s", got.Traffic, want, w.split())
	}
	if created, answers, rolled, _ := w.predictor(); created != "b" || answers != "b" || rolled != "a" {
		t.Errorf("%s is created, %s ready, and %s rolled out", created, answers, rolled)
	}
	for range 3 {
		if n := w.pass(); n != 0 {
			t.Errorf("a pass over a canary of which nothing is new writes %d times", n)
		}
	}
	w.start()
	if n := w.pass(); n != 0 {
		t.Errorf("the first pass of a new process writes %d times", n)
	}
}

func TestACanaryIsPromoted(t *testing.T) {
	for _, share := range []string{"", "100"} {
		w := canaryWorld(t)
		w.canaryPod("c", ready)
		w.pass()
		w.withShare("b", share)
		if main := argOf(w.deployment()); main != "[b] 2" || w.canaryDeployment() != nil || w.split() != "" {
			t.Fatalf("with a share of %q the Deployment has %q, and the Services say %q", share, main, w.split())
		}
		if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "ml", Name: "mnist-predictor-canary"}, &corev1.Service{}); err == nil {
			t.Error("the Service of the canary stays")
		}
		w.says("Ready", "True", "RollingOut")
		w.pass() // the pod of the canary is there until Kubernetes collects it: it does not complete the rollout
		if _, _, rolled, _ := w.predictor(); rolled != "a" {
			t.Errorf("%s is rolled out by a replica of the canary", rolled)
		}
		w.rollOut("r")
		w.pod("s", ready)
		w.pass()
		if _, _, rolled, before := w.predictor(); rolled != "b" || before != "a" {
			t.Errorf("%s is rolled out, and %s before", rolled, before)
		}
		if s := w.service().Status; s.Condition("Canary") != nil || s.Components[kserve.ComponentPredictor].Traffic != nil {
			t.Errorf("the status says %+v", s)
		}
	}
}

func TestACanaryIsBackedOut(t *testing.T) {
	w := canaryWorld(t)
	w.canaryPod("c", ready)
	w.asked(20, 80, 20, 10)
	w.traffic.Partial = true
	w.pass()
	w.says("Canary", "True", "gets 20%") // one activator says nothing at the moment
	w.traffic.Partial = false
	w.traffic.Split.Percent = 10
	w.pass()
	w.says("Canary", "True", "gets 20%") // the figures are of another share
	w.traffic.Split.Percent = 20
	w.pass()
	const why = "10 of its 20 answers were errors (50%), and 0 of 80 of the revision before (0%)"
	w.says("Ready", "True", "CanaryBackedOut: 2 of 2 replicas ready; the new revision was backed out and gets no requests: "+why)
	if w.split() != "b=0" || argOf(w.canaryDeployment()) != "[b] 1" {
		t.Errorf("the Services say %q, and the canary has %q", w.split(), argOf(w.canaryDeployment()))
	}
	events := w.r.events.(*record.FakeRecorder).Events
	if e := <-events; !strings.Contains(e, "Warning CanaryBackedOut revision mnist-predictor-") || !strings.HasSuffix(e, " gets no more requests: "+why) {
		t.Errorf("the event is %q", e)
	}
	w.start()
	w.asked(0, 80, 0, 0)
	w.pass()
	if w.says("Canary", "False", "CanaryBackedOut"); w.split() != "b=0" {
		t.Errorf("after a restart the Services say %q", w.split())
	}
	if events := w.r.events.(*record.FakeRecorder).Events; len(events) != 0 {
		t.Errorf("after a restart %q is said again", <-events)
	}

	w.withShare("b", "30") // another share tries again
	if w.says("Canary", "True", "gets 30%"); w.split() != "b=30" {
		t.Errorf("with another share the Services say %q", w.split())
	}
	w.withShare("b", "20")
	if w.says("Canary", "True", "gets 20%"); w.split() != "b=20" {
		t.Errorf("with the first share again the Services say %q", w.split())
	}
	w.withShare("a", "")
	if argOf(w.deployment()) != "[a] 2" || w.canaryDeployment() != nil {
		t.Errorf("at the end of a canary the Deployments have %q and %q", argOf(w.deployment()), argOf(w.canaryDeployment()))
	}
	w.now = w.now.Add(time.Second)
	w.withShare("b", "20") // the same revision again is not remembered as backed out
	if w.canaryPod("d", ready); w.pass() == 0 || w.split() != "b=20" {
		t.Errorf("the same revision again has %q", w.split())
	}
}

func TestACanaryFollowsAnother(t *testing.T) {
	w := canaryWorld(t)
	w.canaryPod("c", ready)
	w.pass()
	w.withShare("x", "20")
	if main, canary := argOf(w.deployment()), argOf(w.canaryDeployment()); main != "[a] 2" || canary != "[x] 1" || w.split() != "x=0" {
		t.Errorf("the Deployments have %q and %q, and the Services say %q", main, canary, w.split())
	}
	w.deletePod("c")
	w.canaryPod("d", ready)
	if w.pass(); w.split() != "x=20" {
		t.Errorf("without pods of the canary before, the Services say %q", w.split())
	}
}

// A service whose rollout was under way goes back to the revision before, with as many replicas as are wanted now.
func TestACanaryOfARolloutThatIsUnderWay(t *testing.T) {
	w := newWorld(t, tensorflow)
	w.traffic = &rules.Traffic{}
	w.withShare("a", "20")
	if main := argOf(w.deployment()); main != "[a] 2" || w.canaryDeployment() != nil {
		t.Fatalf("the first revision is %q", main)
	}
	w.pod("p", ready)
	w.pod("q", ready)
	w.pass()
	w.withShare("b", "")
	if main := argOf(w.deployment()); main != "[b] 2" {
		t.Fatalf("a rollout is to %q", main)
	}
	w.withShare("b", "60")
	if main, canary := argOf(w.deployment()), argOf(w.canaryDeployment()); main != "[a] 2" || canary != "[b] 2" {
		t.Errorf("the Deployments have %q and %q", main, canary)
	}
}

func TestWithoutAWayToDivideRequestsThereIsNoCanary(t *testing.T) {
	w := newWorld(t, tensorflow)
	w.withShare("a", "")
	w.pod("p", ready)
	w.pod("q", ready)
	w.pass()
	w.r.o.Traffic = nil
	w.withShare("b", "20")
	if main := argOf(w.deployment()); main != "[a] 2" || w.canaryDeployment() != nil {
		t.Errorf("the Deployments have %q and %q", main, argOf(w.canaryDeployment()))
	}
	w.says("Ready", "True", "2 of 2 replicas ready; the new revision waits: requests are not divided here; `berth activator` divides them")
}

func TestACanaryWhoseNameIsTaken(t *testing.T) {
	w := newWorld(t, tensorflow, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "mnist-predictor-canary", Namespace: "ml"}})
	w.traffic = &rules.Traffic{}
	w.withShare("a", "")
	w.pod("p", ready)
	w.pod("q", ready)
	w.pass()
	w.withShare("b", "20")
	w.says("Ready", "True", "and waits: Service mnist-predictor-canary exists and does not belong to this service")
	w.withShare("b", "")
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "ml", Name: "mnist-predictor-canary"}, &corev1.Service{}); err != nil {
		t.Errorf("the Service of another is removed: %v", err)
	}
}

func TestAStoppedServiceHasNoCanary(t *testing.T) {
	w := canaryWorld(t)
	o := w.service()
	o.Annotations = map[string]string{kserve.AnnotationStop: "true"}
	if err := w.client.Update(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	w.pass()
	if main, canary := argOf(w.deployment()), argOf(w.canaryDeployment()); main != "[a] 0" || canary != "[b] 0" {
		t.Errorf("the Deployments have %q and %q", main, canary)
	}
}

func TestFiguresOfActivatorsAddUp(t *testing.T) {
	p := newPods(t, "a", "b")
	p.look(0)
	for _, name := range []string{"a", "b"} {
		s := &rules.Split{Revision: "r", Percent: 20}
		s.Canary.Answers, s.Canary.Errors = 10, 1
		p.say(name, &objects.Stats{Began: p.at, Services: map[string]*objects.Requests{"ml/mnist": {Split: objects.SplitFor(s)}}})
	}
	traffic, ok := p.Traffic("ml", "mnist")
	if !ok || traffic.Split == nil || traffic.Split.Canary.Answers != 20 || traffic.Split.Canary.Errors != 2 {
		t.Errorf("two activators say %+v", traffic.Split)
	}
}
