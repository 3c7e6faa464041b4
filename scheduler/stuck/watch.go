package stuck

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
)

// every is how often the time is looked at.
const every = 10 * time.Second

// Watcher acts on what a Tracker says.
type Watcher struct {
	client   kubernetes.Interface
	recorder events.EventRecorder
	now      func() time.Time

	mu      sync.Mutex
	tracker *Tracker
}

// NewWatcher makes a Watcher that does nothing until Run. now is the clock.
func NewWatcher(p Policy, client kubernetes.Interface, recorder events.EventRecorder, now func() time.Time) *Watcher {
	return &Watcher{client: client, recorder: recorder, now: now, tracker: NewTracker(p)}
}

// Handler tells the Watcher of pods, as an informer of them.
func (w *Watcher) Handler() cache.ResourceEventHandler {
	saw := func(obj any) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.tracker.Saw(obj.(*v1.Pod), w.now())
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    saw,
		UpdateFunc: func(_, obj any) { saw(obj) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if pod, ok := obj.(*v1.Pod); ok {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.tracker.Forget(pod.UID)
			}
		},
	}
}

// Run acts until ctx ends. What fails is reported to failed; a pod that could not
// be deleted is not tried again before the scheduler is started anew.
func (w *Watcher) Run(ctx context.Context, failed func(error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.mu.Lock()
		acts := w.tracker.Acts(w.now())
		w.mu.Unlock()
		for _, a := range acts {
			if err := w.act(ctx, a); err != nil && ctx.Err() == nil {
				failed(err)
			}
		}
	}
}

// act tells of a pod, or deletes it.
func (w *Watcher) act(ctx context.Context, a Act) error {
	reason, action := "GPUsHeldStuck", "Reporting"
	if a.Release {
		reason, action = "GPUsReleased", "Deleting"
		err := w.client.CoreV1().Pods(a.Pod.Namespace).Delete(ctx, a.Pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.Pod.UID}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete pod %s/%s, which holds GPUs and cannot run: %w", a.Pod.Namespace, a.Pod.Name, err)
		}
	}
	w.recorder.Eventf(a.Pod, nil, v1.EventTypeWarning, reason, action, "%s", a.Message)
	return nil
}
