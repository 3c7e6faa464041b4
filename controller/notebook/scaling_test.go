package notebook_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"berth.dev/berth/controller/notebook"
)

// rows: JH-09 AS-59
func TestWhatAnAutoscalerSaysIsInTheStatus(t *testing.T) {
	w := newWorld(t)
	w.must(w.bare.Create(t.Context(), w.node(1)))
	w.gpus = 1
	w.apply(asking("holds", 1))
	w.settle()
	w.apply(asking("waits", 1))
	w.settle()
	var pod corev1.Pod
	w.must(w.bare.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "waits-0"}, &pod))
	for _, e := range []struct{ severity, reason, message, want string }{
		{corev1.EventTypeNormal, "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached", "node groups are as large as they may become"},
		{corev1.EventTypeWarning, "FailedScaleUp", "GCE quota exceeded", "the cloud account's quota allows no more such nodes"},
		{corev1.EventTypeNormal, "TriggeredScaleUp", "pod triggered scale-up: [{t4 1->2 (max: 2)}]", "a new node is on its way (pod triggered scale-up: [{t4 1->2 (max: 2)}])"},
	} {
		w.now = w.now.Add(time.Minute)
		w.event(e.severity, "Pod", "waits-0", pod.UID, e.reason, e.message)
		w.event(corev1.EventTypeNormal, "Pod", "waits-0", pod.UID, "Curious", "nothing that concerns it")
		w.reconcile()
		if got := said(w.get("waits"), "Ready"); !strings.HasPrefix(got, "False Queued: ") || !strings.Contains(got, e.want) {
			t.Errorf("after %s Ready is %q; want %q", e.reason, got, e.want)
		}
	}
	for _, told := range w.told("waits") {
		if strings.Contains(told, "Reissued") != strings.Contains(told, "GCE quota") || strings.Contains(told, "concerns") {
			t.Errorf("told is %q; warnings alone are reissued", told)
		}
	}

	if again := w.again("waits"); again <= 0 || again > 30*time.Second {
		t.Errorf("while a node is on its way the notebook is looked at again after %v", again)
	}

	// The node has come, and has no driver yet.
	n := w.node(0)
	n.Name, n.UID, n.ResourceVersion, n.CreationTimestamp = "fresh", w.uid(), "", metav1.NewTime(w.now)
	n.Labels = map[string]string{"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}
	n.Status.Allocatable, n.Status.Capacity = nil, nil
	w.must(w.bare.Create(t.Context(), n))
	w.now = w.now.Add(time.Minute)
	w.reconcile()
	if got := said(w.get("waits"), "Ready"); !strings.Contains(got, "node fresh is new, and offers no GPU yet") {
		t.Errorf("beside a new node Ready is %q", got)
	}
}

func TestEventsOfAutoscalersAreWatchedAndThoseOfEveryPodAreNot(t *testing.T) {
	var selector fields.Selector
	var slim func(any) (any, error)
	for o, by := range notebook.CacheOptions().ByObject {
		if _, is := o.(*corev1.Event); is {
			selector, slim = by.Field, by.Transform
		}
	}
	for _, tt := range []struct {
		severity, reason string
		watched, counts  bool
	}{
		{corev1.EventTypeWarning, "FailedMount", true, true},
		{corev1.EventTypeWarning, "FailedCreate", true, true},
		{corev1.EventTypeNormal, "TriggeredScaleUp", true, true},
		{corev1.EventTypeNormal, "NotTriggerScaleUp", true, true},
		{corev1.EventTypeNormal, "Nominated", true, true},
		{corev1.EventTypeNormal, "Curious", true, false},
		{corev1.EventTypeNormal, "Pulled", false, false},
		{corev1.EventTypeNormal, "Scheduled", false, false},
	} {
		if got := selector.Matches(fields.Set{"reason": tt.reason, "type": tt.severity}); got != tt.watched {
			t.Errorf("%s %s is watched: %v", tt.severity, tt.reason, got)
		}
		e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "n"}, Type: tt.severity, Reason: tt.reason, Message: "m", InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "a-0"}}
		kept, err := slim(e)
		if got := kept.(*corev1.Event); err != nil || (got.Message == "m") != tt.counts || got.Name != "e" {
			t.Errorf("%s %s is kept as %v, %v", tt.severity, tt.reason, got, err)
		}
		if got := notebook.Happened().Create(event.CreateEvent{Object: e}); got != tt.counts {
			t.Errorf("%s %s has its notebook looked at: %v", tt.severity, tt.reason, got)
		}
	}
}
