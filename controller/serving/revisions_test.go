package serving

import (
	"context"
	"fmt"
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
	objects "berth.dev/berth/kube/serving"
)

// revised changes the first argument of the model's server.
func (w *world) revised(arg string) {
	w.t.Helper()
	o := w.service()
	o.Spec.Raw = fmt.Appendf(nil, `{"predictor":{"tensorflow":{"args":[%q],"storageUri":"pvc://model-storage/","resources":{"limits":{"nvidia.com/gpu":1}}}}}`, arg)
	if err := w.client.Update(context.Background(), o); err != nil {
		w.t.Fatal(err)
	}
}

// rollOut replaces all pods by a ready one of the Deployment as it is, and makes two passes.
func (w *world) rollOut(name string) {
	w.t.Helper()
	if err := w.client.DeleteAllOf(context.Background(), &corev1.Pod{}, client.InNamespace("ml")); err != nil {
		w.t.Fatal(err)
	}
	w.pod(name, ready)
	w.pass()
	w.now = w.now.Add(time.Second)
}

// revisions are those that are kept, by their number; the value is the argument of each.
func (w *world) revisions() map[int64]string {
	w.t.Helper()
	var list appsv1.ControllerRevisionList
	if err := w.client.List(context.Background(), &list, client.InNamespace("ml")); err != nil {
		w.t.Fatal(err)
	}
	out := map[int64]string{}
	for i := range list.Items {
		raw := string(list.Items[i].Data.Raw)
		_, after, _ := strings.Cut(raw, `"args":["`)
		arg, _, _ := strings.Cut(after, `"`)
		if out[list.Items[i].Revision] != "" || strings.Contains(raw, "minReplicas") {
			w.t.Errorf("revision %d is %s", list.Items[i].Revision, raw)
		}
		out[list.Items[i].Revision] = arg
	}
	return out
}

// predictor is the status of the predictor, with revisions as the arguments that they have.
func (w *world) predictor() (created, answers, rolled, before string) {
	w.t.Helper()
	c := w.service().Status.Components[kserve.ComponentPredictor]
	arg := func(name string) string {
		if name == "" {
			return ""
		}
		r := &appsv1.ControllerRevision{}
		if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "ml", Name: name}, r); err != nil {
			w.t.Fatal(err)
		}
		args, _, _ := strings.Cut(strings.TrimPrefix(string(r.Data.Raw), `{"spec":{"predictor":{"tensorflow":{"args":["`), `"`)
		return args
	}
	return arg(c.LatestCreatedRevision), arg(c.LatestReadyRevision), arg(c.LatestRolledoutRevision), arg(c.PreviousRolledoutRevision)
}

func TestRevisionsAreKept(t *testing.T) {
	w := newWorld(t, tensorflow)
	w.revised("a")
	w.pass()
	if got := fmt.Sprint(w.revisions()); got != "map[1:a]" {
		t.Fatalf("before a pod exists, the revisions are %s", got)
	}
	w.rollOut("p")
	w.revised("b")
	w.pass()
	w.says("Ready", "True", "RollingOut")
	if created, answers, rolled, before := w.predictor(); created != "b" || answers != "a" || rolled != "a" || before != "" {
		t.Errorf("during a rollout %s is created, %s ready, %s rolled out, and %s before", created, answers, rolled, before)
	}
	w.rollOut("q")
	if created, answers, rolled, before := w.predictor(); created != "b" || answers != "b" || rolled != "b" || before != "a" {
		t.Errorf("after it %s is created, %s ready, %s rolled out, and %s before", created, answers, rolled, before)
	}
	if n := w.pass(); n != 0 {
		t.Errorf("a pass over a service at rest writes %d times", n)
	}
	w.start()
	if n := w.pass(); n != 0 {
		t.Errorf("the first pass of a new process writes %d times", n)
	}
	w.revised("a")
	w.pass()
	if got := fmt.Sprint(w.revisions()); got != "map[2:b 3:a]" {
		t.Errorf("after a rollback the revisions are %s", got)
	}
	w.rollOut("r")
	if _, _, rolled, before := w.predictor(); rolled != "a" || before != "b" {
		t.Errorf("after a rollback %s is rolled out, and %s before", rolled, before)
	}
}

func TestAChangeOfScaleIsNoRevision(t *testing.T) {
	w := newWorld(t, tensorflow)
	w.pass()
	o := w.service()
	o.Spec.Raw = []byte(strings.Replace(string(o.Spec.Raw), `"maxReplicas":3`, `"maxReplicas":5`, 1))
	if err := w.client.Update(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	w.pass()
	if got := w.revisions(); len(got) != 1 {
		t.Errorf("the revisions are %v", got)
	}
}

func TestOldRevisionsAreRemoved(t *testing.T) {
	w := newWorld(t, tensorflow)
	w.revised("0")
	w.pass()
	w.rollOut("p")
	for i := 1; i < 20; i++ {
		w.revised(fmt.Sprint(i))
		w.pass()
	}
	got := w.revisions()
	if len(got) != 12 || got[1] != "0" || got[20] != "19" || got[10] != "9" || got[9] != "" {
		t.Errorf("of 20 revisions, of which the first has pods, there are %v", got)
	}
}

func TestAServiceRunsWhoseRevisionsCannotBeKept(t *testing.T) {
	w := newWorld(t, tensorflow)
	w.forbid = true
	for range 3 {
		w.pass()
	}
	if w.deployment() == nil {
		t.Error("a service has no Deployment because its revision cannot be kept")
	}
	if events := w.r.events.(*record.FakeRecorder).Events; len(events) != 1 {
		t.Errorf("%d events say that a revision cannot be kept", len(events))
	} else if e := <-events; !strings.Contains(e, "Warning RevisionNotKept the service runs, but there is no way back to this revision: ") || !strings.Contains(e, "exceeded quota") {
		t.Errorf("the event is %q", e)
	}
}

// A service of the name that was deleted leaves revisions until they are collected.
func TestRevisionsOfAnEarlierServiceAreNotItsOwn(t *testing.T) {
	yes := true
	w := newWorld(t, tensorflow, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
		Name: "mnist-predictor-x", Namespace: "ml", Labels: map[string]string{api.LabelInferenceService: "mnist"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "serving.kserve.io/v1beta1", Kind: "InferenceService", Name: "mnist", UID: "earlier", Controller: &yes}},
	}, Revision: 41})
	w.pass()
	if c := w.service().Status.Components[kserve.ComponentPredictor]; c.LatestCreatedRevision != objects.RevisionName("mnist", w.deployment().Spec.Template.Annotations[api.AnnotationServingSpec]) {
		t.Errorf("the status says %+v", c)
	}
	if got := w.revisions(); len(got) != 2 || got[1] != "" {
		t.Errorf("the revisions are %v", got)
	}
}
