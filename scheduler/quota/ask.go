package quota

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/core/queue"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// Ask is pods that are to be admitted together.
type Ask struct {
	Lead *v1.Pod // who is tried, and called later
	Pods []*v1.Pod
	Need int    // of Pods; 0 is all
	Gang string // "namespace/name"; "" is a pod alone
	// Kinds are those of GPUs that its pods are to use, of those that they may; nil is all.
	Kinds []quota.Kind
	// Ticket is when it is Lead's turn.
	Ticket queue.Ticket
	// Object is whose pods these will be, which do not exist yet; nil is that they exist.
	Object *queues.Suspended
}

// Alone is the Ask of a pod that is of no gang, or one more of a gang that runs.
func Alone(pod *v1.Pod, ticket queue.Ticket) *Ask {
	return &Ask{Lead: pod, Pods: []*v1.Pod{pod}, Ticket: ticket}
}

// id names the workload of an Ask.
func (a *Ask) id() string {
	if a.Object != nil {
		return string(a.Object.Object.GetUID())
	}
	if a.Gang == "" {
		return string(a.Lead.UID)
	}
	return queues.Workload(a.Lead)
}

// workload is an Ask as the Book knows it, with mu held; nil is that it is of no queue.
func (q *Quota) workload(a *Ask) *quota.Workload {
	if q.book == nil {
		return nil
	}
	if a.Object != nil {
		return a.Object.Workload(q.read.Asked, q.book.Tree().Ways, q.read.Queue, q.read.User, q.read.PriorityInLine)
	}
	name := q.read.Queue(a.Lead)
	if name == "" {
		return nil
	}
	w := &quota.Workload{ID: a.id(), Queue: name, User: q.read.UserToAsk(a.Lead), Ticket: a.Ticket, Line: q.read.PriorityInLine(a.Lead), Need: a.Need, Since: a.Lead.CreationTimestamp.Time}
	if gang := queues.Workload(a.Lead); gang != w.ID {
		w.Joins = gang
	}
	var one [1][]quota.Kind // or more
	kinds := one[:0]
	w.Pods = make([]quota.Pod, 0, len(a.Pods))
	for _, pod := range a.Pods {
		q.take(pod)
		asked, of := q.read.Asked(pod, q.book.Tree().Ways(name))
		if asked.User = w.User; pod != a.Lead {
			asked.User = q.read.UserToAsk(pod)
			if other := q.read.Queue(pod); other != name {
				w.Mixed, w.Other = true, other
			}
		}
		w.Pods, kinds = append(w.Pods, asked), append(kinds, of)
	}
	queues.SetKinds(w, kinds)
	if a.Kinds != nil {
		w.Kinds = a.Kinds
	}
	return w
}

// claim is an Ask that wants room, with mu held.
func (q *Quota) claim(a *Ask, w *quota.Workload) *quota.Claim {
	c := &quota.Claim{Workload: w, Priority: request.Priority(a.Lead), Now: time.Now()}
	for _, pod := range a.Pods {
		c.Priority = min(c.Priority, request.Priority(pod))
		c.Never = c.Never || request.NeverPreempts(pod)
	}
	return c
}

// take has a pod take over what is kept for one of the object that created it, with mu held, and reports whether it is of such an object.
func (q *Quota) take(pod *v1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || q.book == nil || !q.objects.Come(ref.UID, pod.UID) {
		return false
	}
	queue := q.read.Queue(pod)
	asked, _ := q.read.Asked(pod, q.book.Tree().Ways(queue))
	q.book.Take(string(ref.UID), queues.Workload(pod), queue, asked)
	return true
}
