package quota

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
)

// trial is how long quota is kept for a pod that is called and does not come.
const trial = 30 * time.Second

// SetQueues has the pods counted by other queues, as read says; none ends all counting.
func (q *Quota) SetQueues(specs []quota.Spec, read Reader) {
	q.mu.Lock()
	var call []*v1.Pod
	more := false // there are queues that were not there
	if len(specs) == 0 {
		for _, lead := range q.leads {
			call = append(call, lead)
		}
		q.book, q.leads, q.works = nil, map[string]*v1.Pod{}, map[types.UID]string{}
		q.retried, q.called = map[string]bool{}, map[string]bool{}
		q.asked, q.allowed, q.only = map[string]*quota.Workload{}, map[types.UID]*quota.Selection{}, map[types.UID][]quota.Kind{}
	} else {
		q.read = read
		tree := quota.NewTree(specs)
		q.tallies.Keep(tree)
		if q.book == nil {
			more, q.book = true, quota.NewBook(tree)
		} else {
			was := q.book.Tree()
			more = tree.Adds(was)
			for _, id := range q.book.SetTree(tree) {
				call = append(call, q.leads[id])
				q.drop(id)
			}
			call = append(call, q.freed(was, tree)...)
			for id, lead := range q.leads {
				q.book.SetLine(id, q.read.line(lead))
			}
		}
		for _, pod := range q.pods {
			switch {
			case pod.Spec.NodeName != "":
				q.hold(pod, pod.Spec.NodeName)
			case q.allowed[pod.UID] != nil: // it may wait for room, and may use other nodes now
				call = append(call, pod)
			case more && q.asked[queues.Workload(pod)] == nil && q.asked[string(pod.UID)] == nil:
				call = append(call, pod) // it may wait for room, and its queue may be new: then it may reclaim what others borrow
			}
		}
	}
	q.on.Store(q.book != nil)
	q.version++
	call = append(call, q.next()...)
	q.objects.TurnAll()
	q.mu.Unlock()
	q.wake(call)
}

// freed lists the pods without a node that wait for no quota and may use GPUs in other ways than before,
// with mu held: there may be nodes for them now.
func (q *Quota) freed(was, now *quota.Tree) (call []*v1.Pod) {
	if !slices.ContainsFunc(now.Names(), func(name string) bool { return was.Ways(name) != now.Ways(name) }) {
		return nil
	}
	for _, pod := range q.pods {
		if pod.Spec.NodeName != "" || q.works[pod.UID] != "" {
			continue
		}
		if name := q.read.Queue(pod); was.Ways(name) != now.Ways(name) {
			call = append(call, pod)
		}
	}
	return call
}

// change does what may let others go on, and calls them.
func (q *Quota) change(do func()) {
	q.changeIf(func() bool {
		do()
		return true
	})
}

// changeIf is change where do reports whether anything that pods hold has changed.
func (q *Quota) changeIf(do func() bool) {
	q.mu.Lock()
	changed := do()
	var call []*v1.Pod
	if changed {
		q.version++
	}
	call = q.next()
	q.mu.Unlock()
	q.wake(call)
}

func (q *Quota) wake(call []*v1.Pod) {
	q.wakeObjects()
	call = slices.DeleteFunc(call, func(pod *v1.Pod) bool { return pod == nil })
	if len(call) > 0 {
		q.call(call)
	}
}

// next lists the pods to call, with mu held. Quota that is kept for them ends after a while.
func (q *Quota) next() (call []*v1.Pod) {
	if q.book == nil {
		return nil
	}
	now := time.Now()
	q.book.SetNow(now)
	q.book.Expire(now)
	for _, w := range q.book.Next(now.Add(trial)) {
		if !q.objects.Turn(types.UID(w.ID)) {
			q.called[w.ID] = true
			call = append(call, q.leads[w.ID])
		}
	}
	for _, w := range q.book.Claims() {
		if !q.objects.Turn(types.UID(w.ID)) && !q.retried[w.ID] {
			q.retried[w.ID] = true
			call = append(call, q.leads[w.ID])
		}
	}
	if next := q.book.Expire(now); !next.Equal(q.wakes) {
		if q.timer != nil {
			q.timer.Stop()
		}
		if q.wakes, q.timer = next, nil; !next.IsZero() {
			q.timer = time.AfterFunc(time.Until(next), q.expire)
		}
	}
	return call
}

// expire ends what is kept until now.
func (q *Quota) expire() {
	q.change(func() {
		q.wakes = time.Time{} // the next is another timer
	})
}
