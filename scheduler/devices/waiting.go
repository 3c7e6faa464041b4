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
	"berth.dev/berth/kube"
)

// WaitingName is the name of the plugin Waiting in the scheduler's configuration.
const WaitingName = "BerthWaiting"

// patience is how long a pod that comes later leaves the place to the first of
// its line, which has been called and has not come.
const patience = time.Second

// waiting is the pods that fit nowhere, in lines of pods that ask for the same:
// when the first of a line does not fit, none of it does. Only the first is tried
// again when something changes; when it fits, the next is called.
//
// The scheduling queue's lock is held when mu is taken, so that the queue must
// not be called with mu held.
type waiting struct {
	mu    sync.Mutex
	lines map[string]*line
	pods  map[types.UID]*waiter
	call  func(*v1.Pod) // puts a pod into the active queue
}

// line is pods that ask for the same, the first to be served first.
type line struct {
	key   string
	pods  []*waiter
	sizes bool // some node lacks CPU, memory or room for pods
}

// waiter is one pod of a line.
type waiter struct {
	pod    *v1.Pod
	line   *line
	called time.Time // when it was last put into the active queue by call
	yields bool      // there was room for it, and another came first: so its condition says
	again  bool      // it is tried once more although others come first
}

func newWaiting() *waiting {
	return &waiting{lines: map[string]*line{}, pods: map[types.UID]*waiter{}, call: func(*v1.Pod) {}}
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

// before orders a line, in the order of package queue.
func before(a, b *v1.Pod) int { return queue.Compare(kube.TicketOf(a), kube.TicketOf(b)) }

// join puts a pod that fits nowhere into the line of its key. Where it was in another
// line, the next of that is called, as by leave. Those of its line that yielded to it
// do not fit either, and are called once more to be told so: their conditions say that
// nothing but their turn is missing.
func (q *waiting) join(pod *v1.Pod, key string, counts []placement.Count) {
	q.mu.Lock()
	w, next := q.enter(pod, key)
	w.yields, w.again, w.called = false, false, time.Time{}
	w.line.sizes = slices.ContainsFunc(counts, func(c placement.Count) bool {
		return c.Reason == placement.NotEnoughCPU || c.Reason == placement.NotEnoughMemory || c.Reason == placement.TooManyPods
	})
	for _, other := range w.line.pods {
		if other.yields {
			other.yields, other.again = false, true
			next = append(next, other.pod)
		}
	}
	q.mu.Unlock()
	for _, pod := range next {
		q.call(pod)
	}
}

// yield puts a pod that leaves its place to another into the line of its key.
func (q *waiting) yield(pod *v1.Pod, key string) {
	q.mu.Lock()
	w, next := q.enter(pod, key)
	w.yields, w.again, w.called = true, false, time.Time{}
	q.mu.Unlock()
	for _, pod := range next {
		q.call(pod)
	}
}

// enter puts a pod into the line of its key, with mu held, and gives whom to call.
func (q *waiting) enter(pod *v1.Pod, key string) (w *waiter, call []*v1.Pod) {
	had := q.pods[pod.UID]
	if had != nil && had.line.key != key {
		if next := q.drop(had); next != nil {
			call = append(call, next.pod)
		}
		had = nil
	}
	l := q.lines[key]
	if l == nil {
		l = &line{key: key}
		q.lines[key] = l
	}
	if had != nil {
		had.pod = pod
		return had, call
	}
	w = &waiter{pod: pod, line: l}
	at, _ := slices.BinarySearchFunc(l.pods, pod, func(w *waiter, pod *v1.Pod) int { return before(w.pod, pod) })
	l.pods = slices.Insert(l.pods, at, w)
	q.pods[pod.UID] = w
	return w, call
}

// drop takes a pod out of its line, with mu held, and gives the one that is
// first now if the pod was.
func (q *waiting) drop(w *waiter) *waiter {
	delete(q.pods, w.pod.UID)
	l := w.line
	at := slices.Index(l.pods, w)
	l.pods = slices.Delete(l.pods, at, at+1)
	switch {
	case len(l.pods) == 0:
		delete(q.lines, l.key)
		return nil
	case at > 0:
		return nil
	}
	l.pods[0].called = time.Now()
	return l.pods[0]
}

// leave takes a pod out of its line, for whatever reason, and calls the one that
// is first then. It must be called without locks that PreEnqueue or a queueing
// hint takes.
func (q *waiting) leave(uid types.UID) {
	q.mu.Lock()
	var next *waiter
	if w := q.pods[uid]; w != nil {
		next = q.drop(w)
	}
	q.mu.Unlock()
	if next != nil {
		q.call(next.pod)
	}
}

// first says for a pod that fits whether another of its line is to be served
// before it, which is then called. If not, the pod is in no line from now on, and
// the next of its line is called.
func (q *waiting) first(pod *v1.Pod, key string) (ahead *v1.Pod) {
	q.mu.Lock()
	now := time.Now()
	var call *waiter
	w, l := q.pods[pod.UID], q.lines[key]
	if l != nil && l.pods[0] != w && before(l.pods[0].pod, pod) < 0 {
		if head := l.pods[0]; head.called.IsZero() || now.Sub(head.called) < patience {
			ahead, call = head.pod, head
			if head.called.IsZero() {
				head.called = now
			}
		}
	}
	if ahead == nil && w != nil {
		q.drop(w)
	}
	if l = q.lines[key]; ahead == nil && l != nil {
		call = l.pods[0]
		call.called = now
	}
	q.mu.Unlock()
	if call != nil {
		q.call(call.pod)
	}
	return ahead
}

// wake calls the first of every line.
func (q *waiting) wake() {
	q.mu.Lock()
	var heads []*v1.Pod
	for _, l := range q.lines {
		l.pods[0].called = time.Now()
		heads = append(heads, l.pods[0].pod)
	}
	q.mu.Unlock()
	for _, pod := range heads {
		q.call(pod)
	}
}

// place says where a pod is in its line: whether it waits at all, whether it is
// first, and whether CPU, memory or room for pods would help.
func (q *waiting) place(uid types.UID) (waits, head, sizes bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.pods[uid]
	if w == nil {
		return false, true, true
	}
	return true, w.line.pods[0] == w, w.line.sizes
}

// lets says whether a pod is to be tried when somebody asks for it.
func (q *waiting) lets(uid types.UID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.pods[uid]
	return w == nil || w.again || w.line.pods[0] == w
}

// knows says whether a pod has been tried before and waits.
func (q *waiting) knows(uid types.UID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pods[uid] != nil
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
