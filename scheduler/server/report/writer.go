package report

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	typedevents "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

const (
	eventWriters = 8    // requests under way at a time
	eventQueue   = 4096 // events that wait; more are dropped, and counted
)

// eventRetry is for an API server that does not answer: 1 s, 2 s, 4 s, 8 s, 16 s.
// Events that come meanwhile wait in the queue.
var eventRetry = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 6} //nolint:gochecknoglobals // a constant

// eventsDropped is registered with the first eventWriter.
var eventsDropped = metrics.NewCounter(&metrics.CounterOpts{ //nolint:gochecknoglobals // a metric
	Name: "berth_scheduler_events_dropped_total", Help: "Events that were not written because too many waited to be.", StabilityLevel: metrics.ALPHA,
})

var registerEvents = sync.OnceFunc(func() { legacyregistry.MustRegister(eventsDropped) }) //nolint:gochecknoglobals // of a metric

// eventWriter writes each event as it is, and keeps none. client-go's broadcaster
// keeps every event for 6 to 12 minutes to count those that are alike, which is
// all pods of that time in memory; and as alike it takes those that differ in the
// message, so that the first reason why a pod waits would stand for all later
// ones. What is alike is not told twice here: see quiet.
//
// Of the adapter that it stands in front of, the recorder for the lease is left.
type eventWriter struct {
	events.EventBroadcasterAdapter

	client typedevents.EventsV1Interface
	queue  chan *eventsv1.Event
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// NewEventWriter returns the broadcaster adapter with a queue of its own before client,
// so that slow writes of events do not hold up scheduling.
func NewEventWriter(adapter events.EventBroadcasterAdapter, client typedevents.EventsV1Interface) *eventWriter { //nolint:staticcheck // kube-scheduler takes no other
	registerEvents()
	return &eventWriter{EventBroadcasterAdapter: adapter, client: client, queue: make(chan *eventsv1.Event, eventQueue), stop: func() {}}
}

// NewRecorder implements events.EventBroadcasterAdapter.
func (w *eventWriter) NewRecorder(name string) events.EventRecorderLogger {
	host, _ := os.Hostname() // without it the name alone says who
	return &eventRecorder{w, name, name + "-" + host}
}

// StartRecordingToSink implements events.EventBroadcasterAdapter. It is called
// once.
func (w *eventWriter) StartRecordingToSink(stop <-chan struct{}) {
	w.EventBroadcasterAdapter.StartRecordingToSink(stop)
	ctx, cancel := context.WithCancel(wait.ContextForChannel(stop))
	w.stop = cancel
	for range eventWriters {
		w.done.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case e := <-w.queue:
					w.write(ctx, e)
				}
			}
		})
	}
}

// Shutdown implements events.EventBroadcasterAdapter: what waits is given up.
func (w *eventWriter) Shutdown() {
	w.stop()
	w.done.Wait()
	w.EventBroadcasterAdapter.Shutdown()
}

// write creates an event, and tries again where the API server did not answer.
func (w *eventWriter) write(ctx context.Context, e *eventsv1.Event) {
	err := wait.ExponentialBackoffWithContext(ctx, eventRetry, func(ctx context.Context) (bool, error) {
		_, err := w.client.Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{})
		var answered apierrors.APIStatus
		if errors.As(err, &answered) && !apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err) {
			return false, err
		}
		return err == nil, nil
	})
	if err != nil && ctx.Err() == nil && !apierrors.IsAlreadyExists(err) && !apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause) {
		klog.FromContext(ctx).Error(err, "Write an event", "about", klog.KRef(e.Regarding.Namespace, e.Regarding.Name), "reason", e.Reason)
	}
}

// eventRecorder makes the events of one reporter.
type eventRecorder struct {
	w              *eventWriter
	name, instance string
}

// Eventf implements events.EventRecorder. It does not block.
func (r *eventRecorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	about, err := reference.GetReference(scheme.Scheme, regarding)
	if err != nil {
		klog.Background().Error(err, "Name the object of an event", "reason", reason)
		return
	}
	e := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: about.Namespace}, EventTime: metav1.NowMicro(),
		ReportingController: r.name, ReportingInstance: r.instance,
		Action: action, Reason: reason, Regarding: *about, Note: format(note, args), Type: eventtype,
	}
	e.Name = util.GenerateEventName(about.Name, e.EventTime.UnixNano())
	if e.Namespace == "" {
		e.Namespace = metav1.NamespaceDefault
	}
	if related != nil {
		if e.Related, err = reference.GetReference(scheme.Scheme, related); err != nil {
			e.Related = nil
		}
	}
	select {
	case r.w.queue <- e:
	default:
		eventsDropped.Inc()
	}
}

// WithLogger implements events.EventRecorderLogger.
func (r *eventRecorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }
