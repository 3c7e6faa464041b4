package quota

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// Promise keeps quota for pods that have places on nodes, until they are bound or have failed.
func (q *Quota) Promise(pods []*v1.Pod, nodes map[types.UID]string) {
	if len(pods) == 0 || !q.enter() {
		return
	}
	defer q.mu.Unlock()
	w := cmp.Or(q.asked[queues.Workload(pods[0])], q.asked[string(pods[0].UID)])
	if w == nil {
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
	q.leave(w.ID)
	q.book.Promise(w, keep)
}

// Reserve counts a pod that goes to a node.
func (q *Quota) Reserve(pod *v1.Pod, node string) {
	if !q.enter() {
		return
	}
	defer q.mu.Unlock()
	s := q.pods[pod.UID]
	if s == nil {
		if !request.AsksForGPUs(pod) {
			return
		}
		s = &seen{pod: pod, early: true}
		q.pods[pod.UID] = s
	}
	held, settled := q.read.Reserved(pod, node)
	if q.hold(pod, held); settled {
		s.node = node
	}
}

// Unreserve takes back what Reserve has counted, unless the watch shows that the pod has a node.
func (q *Quota) Unreserve(pod *v1.Pod) {
	if !q.On() {
		return
	}
	q.change(func() {
		s := q.pods[pod.UID]
		if s != nil {
			if s.node = ""; s.early {
				delete(q.pods, pod.UID)
			}
		}
		if q.book != nil && (s == nil || s.pod.Spec.NodeName == "") {
			q.book.Gone(string(pod.UID))
		}
	})
}

// Counted returns how many of pods count as holding quota. A room that waits for a pod may hear of its end
// before the Book does.
func (q *Quota) Counted(pods []*v1.Pod) (n int) {
	if !q.enter() {
		return 0
	}
	defer q.mu.Unlock()
	for _, pod := range pods {
		if _, holds := q.book.Holder(string(pod.UID)); holds {
			n++
		}
	}
	return n
}

// Failed notes that a pod that was tried got no node. Quota that is kept for it is released
// unless devices are held for it or another of its gang, or it has been called since it was tried. The pods of a workload that waits for quota are
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
			if len(kept) == 0 || q.called[id] {
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
	if !leads || !q.waits(id) {
		return nil
	}
	out := []*v1.Pod{lead}
	if w := q.asked[id]; w != nil {
		for i := range w.Pods {
			if pod := q.pod(types.UID(w.Pods[i].ID)); pod != nil && pod.UID != lead.UID {
				out = append(out, pod)
			}
		}
	}
	return out
}

// Waits reports whether a pod waits for quota, alone or with its gang, and is not to be tried before there is some.
func (q *Quota) Waits(pod *v1.Pod) bool {
	if !q.enter() {
		return false
	}
	defer q.mu.Unlock()
	return q.waits(cmp.Or(q.works[pod.UID], queues.Workload(pod)))
}

// waits is Waits for a workload, with mu held.
func (q *Quota) waits(id string) bool { return q.book.Waits(id) && !q.retried[id] }

// Retry has pods tried once more that wait for quota, such as where others may be evicted for them now. They
// keep their place in line, and what is freed for them.
func (q *Quota) Retry(pods map[string]*v1.Pod) {
	if !q.enter() {
		return
	}
	defer q.mu.Unlock()
	for _, pod := range pods {
		if id, leads := q.works[pod.UID]; leads {
			q.retried[id] = true
		}
	}
}

// Account is equal for pods of one queue and user; "" is of no queue.
func (q *Quota) Account(pod *v1.Pod) string {
	if !q.enter() {
		return ""
	}
	defer q.mu.Unlock()
	if name := q.read.Queue(pod); name != "" {
		return name + "\x00" + q.read.User(pod)
	}
	return ""
}
