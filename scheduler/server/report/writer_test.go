package report

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
)

// noAdapter is what an eventWriter stands in front of.
type noAdapter struct{ events.EventBroadcasterAdapter }

func (noAdapter) StartRecordingToSink(<-chan struct{}) {}
func (noAdapter) Shutdown()                            {}

// TestEveryEventIsWrittenOnce writes events through an API server that refuses
// some and does not answer others at first.
func TestEveryEventIsWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var mu sync.Mutex
		tries, notes := map[string]int{}, map[string]int{}
		client.PrependReactor("create", "events", func(a clienttesting.Action) (bool, runtime.Object, error) {
			e := a.(clienttesting.CreateAction).GetObject().(*eventsv1.Event)
			mu.Lock()
			defer mu.Unlock()
			tries[e.Note]++
			switch {
			case e.Note == "refused":
				return true, nil, apierrors.NewInvalid(eventsv1.SchemeGroupVersion.WithKind("Event").GroupKind(), e.Name, nil)
			case e.Note == "late" && tries[e.Note] < 3:
				return true, nil, errors.New("connection refused")
			case e.Note == "busy" && tries[e.Note] < 2:
				return true, nil, apierrors.NewTooManyRequests("later", 1)
			}
			notes[e.Regarding.Name+" "+e.Note]++
			return true, e, nil
		})
		w := NewEventWriter(noAdapter{}, client.EventsV1())
		stop := make(chan struct{})
		w.StartRecordingToSink(stop)
		r := w.NewRecorder("berth-scheduler")
		pod := func(name string) *v1.Pod { return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "d"}} }
		for i := range 20 {
			r.Eventf(pod(fmt.Sprint("p", i)), nil, v1.EventTypeNormal, "Scheduled", "Binding", "on %s", "n")
		}
		r.Eventf(pod("a"), nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "3 nodes are full")
		r.Eventf(pod("a"), nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "2 nodes are full")
		for _, note := range []string{"refused", "late", "busy"} {
			r.Eventf(pod("b"), pod("c"), v1.EventTypeWarning, "Preempted", "Preempting", note)
		}
		r.Eventf(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, nil, v1.EventTypeNormal, "Seen", "Looking", "of no namespace")
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		want := map[string]int{"a 3 nodes are full": 1, "a 2 nodes are full": 1, "b late": 1, "b busy": 1, "n of no namespace": 1}
		for i := range 20 {
			want[fmt.Sprintf("p%d on n", i)] = 1
		}
		if fmt.Sprint(notes) != fmt.Sprint(want) {
			t.Errorf("written\n%v\nwant\n%v", notes, want)
		}
		if tries["refused"] != 1 {
			t.Errorf("an event that was refused was sent %d times", tries["refused"])
		}
		w.Shutdown()
	})
}

// TestEventsDoNotBlock fills the queue of an eventWriter that writes nothing yet.
func TestEventsDoNotBlock(t *testing.T) {
	w := NewEventWriter(noAdapter{}, fake.NewClientset().EventsV1())
	r := w.NewRecorder("berth-scheduler")
	for range eventQueue + 10 {
		r.Eventf(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "d"}}, nil, v1.EventTypeNormal, "Scheduled", "Binding", "on n")
	}
	if n := len(w.queue); n != eventQueue {
		t.Errorf("%d events wait, want %d", n, eventQueue)
	}
}
