package quota

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/queue"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
)

// Answer is what the quotas say of an Ask.
type Answer struct {
	Count int // how many of its pods may go on
	// Refused is why none may; "" is that they may. Room is that the evictions of others may
	// help.
	Refused string
	Room    bool
}

// Try reports whether an Ask may be placed now. One that may not waits in the line of its
// queue, and its Lead is called when it may.
func (q *Quota) Try(a *Ask) Answer {
	if !q.enter() {
		return Answer{Count: len(a.Pods)}
	}
	defer q.mu.Unlock()
	w := q.workload(a)
	if w == nil {
		return Answer{Count: len(a.Pods)}
	}
	delete(q.called, w.ID)
	delete(q.retried, w.ID)
	q.book.SetNow(time.Now())
	v := q.book.Try(w)
	if v.Cause == quota.None {
		q.leave(w.ID)
		q.asked[w.ID] = w
		q.admit(w, v.Choices)
		return Answer{Count: v.Count}
	}
	q.admit(w, nil)
	what := "the pod"
	if a.Gang != "" {
		what = fmt.Sprintf("gang %s", a.Gang)
	}
	out := Answer{Refused: v.Sentence(what, w.User), Room: v.Cause.Passes() && q.book.MayReclaim(q.claim(a, w))}
	q.drop(w.ID)
	q.book.Wait(w)
	q.leads[w.ID], q.works[a.Lead.UID], q.asked[w.ID] = a.Lead, w.ID, w
	q.objects.Refused(a.Lead)
	return out
}

// Turn returns when it is the turn of an Ask in the line of its queue.
func (q *Quota) Turn(a *Ask) queue.Ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := q.workload(a); w != nil {
		return q.book.Turn(w)
	}
	return a.Ticket
}

// DefaultClass returns the PriorityClass that a pod gets from its queue, if there is one of that name; "" is none.
func (q *Quota) DefaultClass(pod *v1.Pod) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.book == nil || q.read.Default == nil {
		return ""
	}
	return q.read.Default(pod)
}

// Lets reports whether a pod is to be tried: it does not wait for quota.
func (q *Quota) Lets(uid types.UID) bool {
	if !q.enter() {
		return true
	}
	defer q.mu.Unlock()
	id, leads := q.works[uid]
	return !leads || !q.waits(id)
}

// QueueOf returns the queue of a pod, "" is none, and in which ways the pod must not use GPUs by it; 0 is that it may use
// them in all ways.
func (q *Quota) QueueOf(pod *v1.Pod) (queue string, barred sharing.Ways) {
	if !q.enter() {
		return "", 0
	}
	defer q.mu.Unlock()
	queue = q.read.Queue(pod)
	return queue, sharing.AllWays &^ q.book.Tree().Ways(queue)
}
