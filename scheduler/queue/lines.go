package queue

import (
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
)

// Lines is the pods that fit nowhere, in the lines of package queue. It keeps the
// lock, the pods, and the way into the active queue.
//
// The scheduling queue's lock is held when mu is taken, so that the queue must
// not be called with mu held.
type Lines struct {
	Mu    sync.Mutex
	Lines *queue.Lines
	Pods  map[types.UID]*v1.Pod // those in lines
	Call  func(*v1.Pod)         // puts a pod into the active queue
	// Moved looks at a pod that may be tried now, as it has left its line, or no longer, as others have come before it. One that
	// is being tried stays as it is. It is called without mu.
	Moved func(*v1.Pod)
	// Ticket is what decides when it is a pod's turn, as in the scheduling queue.
	Ticket func(*v1.Pod) queue.Ticket
}

// NewLines returns Lines without pods. Call must be set before pods join.
func NewLines() *Lines {
	return &Lines{Lines: queue.NewLines(), Pods: map[types.UID]*v1.Pod{}, Call: func(*v1.Pod) {}, Moved: func(*v1.Pod) {}, Ticket: request.TicketOf}
}

// change changes the lines, and calls the pods that it returns. do is called with mu
// held.
func (q *Lines) change(do func(now time.Time) (call []string)) {
	q.Mu.Lock()
	var call []*v1.Pod
	for _, uid := range do(time.Now()) {
		call = append(call, q.Pods[types.UID(uid)])
	}
	q.Mu.Unlock()
	for _, pod := range call {
		q.Call(pod)
	}
}

// Join puts a pod that fits nowhere into the line of its key: see queue.Lines.Join.
func (q *Lines) Join(pod *v1.Pod, key string, counts []placement.Count) {
	host := slices.ContainsFunc(counts, func(c placement.Count) bool {
		return c.Reason == placement.NotEnoughCPU || c.Reason == placement.NotEnoughMemory || c.Reason == placement.TooManyPods
	})
	q.enter(pod, func(now time.Time) []string { return q.Lines.Join(q.Ticket(pod), key, host, now) })
}

// Yield puts a pod that leaves its place to another into the line of its key.
func (q *Lines) Yield(pod *v1.Pod, key string) {
	q.enter(pod, func(now time.Time) []string { return q.Lines.Yield(q.Ticket(pod), key, now) })
}

// enter puts a pod into a line. The pod that was first there may be behind it now.
func (q *Lines) enter(pod *v1.Pod, do func(now time.Time) (call []string)) {
	var behind *v1.Pod
	q.change(func(now time.Time) []string {
		q.Pods[pod.UID] = pod
		call := do(now)
		behind = q.Pods[types.UID(q.Lines.Behind(string(pod.UID)))]
		return call
	})
	if behind != nil {
		q.Moved(behind)
	}
}

// Leave takes a pod out of its line, for whatever reason, and calls the one that
// is first then. It must be called without locks that PreEnqueue or a queueing
// hint takes.
func (q *Lines) Leave(uid types.UID) {
	var waited *v1.Pod
	q.change(func(now time.Time) []string {
		if !q.Lines.Admits(string(uid)) {
			waited = q.Pods[uid]
		}
		delete(q.Pods, uid)
		return q.Lines.Leave(string(uid), now)
	})
	if waited != nil {
		q.Moved(waited)
	}
}

// First returns, for a pod that fits, another of its line that is to be served
// before it: see queue.Lines.First.
func (q *Lines) First(pod *v1.Pod, key string) (ahead *v1.Pod) {
	q.change(func(now time.Time) []string {
		uid, call := q.Lines.First(q.Ticket(pod), key, now)
		if ahead = q.Pods[types.UID(uid)]; ahead == nil {
			delete(q.Pods, pod.UID)
		}
		return call
	})
	return ahead
}

// Rank moves a pod that waits to where its ticket now says: see queue.Lines.Rank. Ranked is to be called
// with the pods that it returns.
func (q *Lines) Rank(uid types.UID) (moved []*v1.Pod) {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	pod := q.Pods[uid]
	if pod == nil {
		return nil
	}
	if first, was := q.Lines.Rank(q.Ticket(pod)); first != "" {
		moved = []*v1.Pod{q.Pods[types.UID(first)], q.Pods[types.UID(was)]}
	}
	return moved
}

// Ranked calls those of the pods that Rank has put first, without locks, as Leave is called.
func (q *Lines) Ranked(moved []*v1.Pod) {
	for _, pod := range moved {
		if q.Lets(pod.UID) {
			q.Call(pod)
		} else {
			q.Moved(pod)
		}
	}
}

// Wake calls the first of every line.
func (q *Lines) Wake() { q.change(q.Lines.Wake) }

// Place reports where a pod is in its line: see queue.Lines.Place.
func (q *Lines) Place(uid types.UID) (waits, head, host bool) {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	return q.Lines.Place(string(uid))
}

// Lets reports whether a pod is to be tried when somebody asks for it.
func (q *Lines) Lets(uid types.UID) bool {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	return q.Lines.Admits(string(uid))
}

// Knows reports whether a pod has been tried before and waits.
func (q *Lines) Knows(uid types.UID) bool {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	return q.Lines.Has(string(uid))
}

// Caller returns a func for Lines.Call: handle puts pods into the active queue.
func Caller(handle fwk.Handle) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		Activate(handle, klog.Background(), pod)
	}
}

// Activate puts pods into the active queue of kube-scheduler.
func Activate(handle fwk.Handle, log klog.Logger, pods ...*v1.Pod) {
	byName := make(map[string]*v1.Pod, len(pods))
	for _, pod := range pods {
		byName[pod.Namespace+"/"+pod.Name] = pod
	}
	handle.Activate(log, byName)
}
