package quota

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
)

// SetQueues has the pods counted by other queues, as read says; none ends all counting.
func (q *Quota) SetQueues(specs []quota.Spec, read queues.Reader) {
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
				q.book.SetLine(id, q.read.PriorityInLine(lead))
			}
		}
		for _, s := range q.pods {
			pod := s.pod
			s.node = "" // it may be of another queue, and hold something else
			switch {
			case pod.Spec.NodeName != "":
				q.hold(pod, q.read.Held(pod, pod.Spec.NodeName))
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
	for _, s := range q.pods {
		pod := s.pod
		if pod.Spec.NodeName != "" || q.works[pod.UID] != "" {
			continue
		}
		if name := q.read.Queue(pod); was.Ways(name) != now.Ways(name) {
			call = append(call, pod)
		}
	}
	return call
}
