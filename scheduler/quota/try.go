package quota

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/queue"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
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
	if !q.On() {
		return Answer{Count: len(a.Pods)}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.workload(a)
	if w == nil {
		return Answer{Count: len(a.Pods)}
	}
	v := q.book.Try(w)
	if v.Cause == quota.None {
		q.book.Leave(w.ID)
		q.drop(w.ID)
		q.asked[w.ID] = w
		q.admit(w, v.Choices)
		return Answer{Count: v.Count}
	}
	q.admit(w, nil)
	what := "the pod"
	if a.Gang != "" {
		what = fmt.Sprintf("gang %s", a.Gang)
	}
	claim := q.claim(a, w)
	out := Answer{Refused: v.Sentence(what, w.User), Room: v.Cause >= quota.UserLimit && q.book.MayReclaim(claim)}
	q.book.Wait(w)
	q.drop(w.ID)
	q.leads[w.ID], q.works[a.Lead.UID], q.asked[w.ID] = a.Lead, w.ID, w
	q.refused(a.Lead)
	return out
}

// workload is an Ask as the Book knows it, with mu held; nil is that it is of no queue.
func (q *Quota) workload(a *Ask) *quota.Workload {
	if q.book == nil {
		return nil
	}
	if a.Object != nil {
		return a.Object.Workload(q.read.Asked, q.book.Tree().Ways, q.read.Queue, q.read.User)
	}
	name := q.read.Queue(a.Lead)
	if name == "" {
		return nil
	}
	w := &quota.Workload{ID: a.id(), Queue: name, User: q.read.asks(a.Lead), Ticket: a.Ticket, Need: a.Need, Since: a.Lead.CreationTimestamp.Time}
	if gang := queues.Workload(a.Lead); gang != w.ID {
		w.Joins = gang
	}
	kinds := make([][]quota.Kind, 0, len(a.Pods))
	for _, pod := range a.Pods {
		q.take(pod)
		asked, of := q.read.Asked(pod, q.book.Tree().Ways(name))
		asked.User = q.read.asks(pod)
		w.Pods, kinds = append(w.Pods, asked), append(kinds, of)
		if other := q.read.Queue(pod); other != name {
			w.Mixed, w.Other = true, other
		}
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

// Lets reports whether a pod is to be tried: it does not wait for quota.
func (q *Quota) Lets(uid types.UID) bool {
	if !q.On() {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	id, waits := q.works[uid]
	return !waits || q.book == nil || !q.book.Waits(id)
}

// Barred returns in which ways a pod must not use GPUs by the queue that it is of; 0 is that it may use
// them in all ways.
func (q *Quota) Barred(pod *v1.Pod) sharing.Ways {
	if !q.On() {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.book == nil {
		return 0
	}
	return sharing.AllWays &^ q.book.Tree().Ways(q.read.Queue(pod))
}

// QueueOf returns the queue of a pod; "" is none.
func (q *Quota) QueueOf(pod *v1.Pod) string {
	if !q.On() {
		return ""
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.book == nil {
		return ""
	}
	return q.read.Queue(pod)
}

// Promise keeps quota for pods that have places on nodes, until they are bound or have failed.
func (q *Quota) Promise(pods []*v1.Pod, nodes map[types.UID]string) {
	if !q.On() || len(pods) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.asked[queues.Workload(pods[0])]
	if w == nil {
		w = q.asked[string(pods[0].UID)]
	}
	if w == nil || q.book == nil {
		return
	}
	placed := make(map[string]*v1.Pod, len(pods))
	for _, pod := range pods {
		placed[string(pod.UID)] = pod
	}
	var keep []quota.Pod
	for _, p := range w.Pods {
		if pod := placed[p.ID]; pod != nil {
			p.Pieces = q.read.Held(pod, nodes[pod.UID])
			keep = append(keep, p)
		}
	}
	q.book.Leave(w.ID)
	if lead := q.leads[w.ID]; lead != nil {
		delete(q.works, lead.UID)
		delete(q.leads, w.ID)
	}
	q.book.Promise(w, keep)
}

// Reserve counts a pod that goes to a node.
func (q *Quota) Reserve(pod *v1.Pod, node string) {
	if !q.On() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.book != nil && (q.pods[pod.UID] != nil || request.Of(pod) != nil) {
		q.hold(pod, node)
	}
}

// Unreserve takes back what Reserve has counted, unless the watch shows that the pod has
// a node.
func (q *Quota) Unreserve(pod *v1.Pod) {
	if !q.On() {
		return
	}
	q.change(func() {
		if now := q.pods[pod.UID]; q.book != nil && (now == nil || now.Spec.NodeName == "") {
			q.book.Gone(string(pod.UID))
		}
	})
}

// Failed notes that a pod that was tried got no node. Quota that is kept for it is released
// unless devices are held for it or another of its gang. The pods of a workload that waits for quota are
// handed to Waiting.
func (q *Quota) Failed(pod *v1.Pod) {
	if !q.On() {
		return
	}
	var waiting []*v1.Pod
	q.change(func() {
		if q.book == nil {
			return
		}
		waiting = q.waiting(pod)
		for _, id := range []string{queues.Workload(pod), string(pod.UID)} {
			kept := q.book.Kept(id)
			if len(kept) == 0 {
				continue
			}
			for _, uid := range kept {
				if q.Holding(types.UID(uid)) {
					return
				}
			}
			q.book.Release(id)
		}
	})
	if len(waiting) > 0 {
		q.Waiting(waiting)
	}
}

// waiting lists the pods of the workload that waits for quota and is led by a pod, this first, with mu
// held.
func (q *Quota) waiting(lead *v1.Pod) []*v1.Pod {
	id, leads := q.works[lead.UID]
	if !leads || !q.book.Waits(id) {
		return nil
	}
	out := []*v1.Pod{lead}
	if w := q.asked[id]; w != nil {
		for i := range w.Pods {
			if pod := q.pods[types.UID(w.Pods[i].ID)]; pod != nil && pod.UID != lead.UID {
				out = append(out, pod)
			}
		}
	}
	return out
}

// Waits reports whether a pod waits for quota, alone or with its gang.
func (q *Quota) Waits(pod *v1.Pod) bool {
	if !q.On() {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.book == nil {
		return false
	}
	if id, leads := q.works[pod.UID]; leads {
		return q.book.Waits(id)
	}
	return q.book.Waits(queues.Workload(pod))
}

// Account is equal for pods of one queue and user; "" is of no queue.
func (q *Quota) Account(pod *v1.Pod) string {
	if !q.On() {
		return ""
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.book == nil || q.read.Queue(pod) == "" {
		return ""
	}
	return q.read.Queue(pod) + "\x00" + q.read.User(pod)
}
