package devices

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
)

// WaitingName is the name of the plugin Waiting in the scheduler's configuration.
const WaitingName = "BerthWaiting"

// waiting is the pods that fit nowhere, in the lines of package queue. It keeps the
// lock, the pods, and the way into the active queue.
//
// The scheduling queue's lock is held when mu is taken, so that the queue must
// not be called with mu held.
type waiting struct {
	mu    sync.Mutex
	lines *queue.Lines
	pods  map[types.UID]*v1.Pod // those in lines
	call  func(*v1.Pod)         // puts a pod into the active queue
}

func newWaiting() *waiting {
	return &waiting{lines: queue.NewLines(), pods: map[types.UID]*v1.Pod{}, call: func(*v1.Pod) {}}
}

// lineKey is equal for pods that fit the same nodes, and may or may not make room
// there.
func lineKey(pod *v1.Pod, w *wanted, r *cluster.Request) string {
	b := append([]byte(w.class), 3)
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == v1.PreemptNever {
		b = append(b, 4)
	}
	b = append(append(b, w.shape...), 3)
	return string(strconv.AppendInt(append(strconv.AppendInt(b, r.CPUMilli, 36), '/'), r.MemoryBytes, 36))
}

// change changes the lines, and calls the pods that it returns. do is called with mu
// held.
func (q *waiting) change(do func(now time.Time) (call []string)) {
	q.mu.Lock()
	var call []*v1.Pod
	for _, uid := range do(time.Now()) {
		call = append(call, q.pods[types.UID(uid)])
	}
	q.mu.Unlock()
	for _, pod := range call {
		q.call(pod)
	}
}

// join puts a pod that fits nowhere into the line of its key: see queue.Lines.Join.
func (q *waiting) join(pod *v1.Pod, key string, counts []placement.Count) {
	host := slices.ContainsFunc(counts, func(c placement.Count) bool {
		return c.Reason == placement.NotEnoughCPU || c.Reason == placement.NotEnoughMemory || c.Reason == placement.TooManyPods
	})
	q.change(func(now time.Time) []string {
		q.pods[pod.UID] = pod
		return q.lines.Join(request.TicketOf(pod), key, host, now)
	})
}

// yield puts a pod that leaves its place to another into the line of its key.
func (q *waiting) yield(pod *v1.Pod, key string) {
	q.change(func(now time.Time) []string {
		q.pods[pod.UID] = pod
		return q.lines.Yield(request.TicketOf(pod), key, now)
	})
}

// leave takes a pod out of its line, for whatever reason, and calls the one that
// is first then. It must be called without locks that PreEnqueue or a queueing
// hint takes.
func (q *waiting) leave(uid types.UID) {
	q.change(func(now time.Time) []string {
		delete(q.pods, uid)
		return q.lines.Leave(string(uid), now)
	})
}

// first returns, for a pod that fits, another of its line that is to be served
// before it: see queue.Lines.First.
func (q *waiting) first(pod *v1.Pod, key string) (ahead *v1.Pod) {
	q.change(func(now time.Time) []string {
		uid, call := q.lines.First(request.TicketOf(pod), key, now)
		if ahead = q.pods[types.UID(uid)]; ahead == nil {
			delete(q.pods, pod.UID)
		}
		return call
	})
	return ahead
}

// wake calls the first of every line.
func (q *waiting) wake() { q.change(q.lines.Wake) }

// place reports where a pod is in its line: see queue.Lines.Place.
func (q *waiting) place(uid types.UID) (waits, head, host bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lines.Place(string(uid))
}

// lets reports whether a pod is to be tried when somebody asks for it.
func (q *waiting) lets(uid types.UID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lines.Admits(string(uid))
}

// knows reports whether a pod has been tried before and waits.
func (q *waiting) knows(uid types.UID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lines.Has(string(uid))
}

// Waiting is the plugin that keeps pods that are not the first of their line out
// of the scheduler's way. It registers for no events, so that these pods cost
// nothing, however many they are: the desk calls them when it is their turn.
type Waiting struct{ desk *desk }

var (
	_ fwk.PreEnqueuePlugin  = &Waiting{}
	_ fwk.EnqueueExtensions = &Waiting{}
)

// waitingMaker makes Waiting for the profiles of one scheduler, whose desk is d.
func waitingMaker(d *desk) Maker {
	return func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &Waiting{desk: d}, nil }
}

// Name implements fwk.Plugin.
func (w *Waiting) Name() string { return WaitingName }

// PreEnqueue lets a pod be tried unless others of its line are before it.
func (w *Waiting) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if w.desk.waiting.lets(pod.UID) {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "pods that came earlier ask for the same and fit nowhere yet")
}

// EventsToRegister implements fwk.EnqueueExtensions. No event helps such a pod.
func (w *Waiting) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// caller makes what waiting.call is: handle puts pods into the active queue.
func caller(handle fwk.Handle) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		handle.Activate(klog.Background(), map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
	}
}
