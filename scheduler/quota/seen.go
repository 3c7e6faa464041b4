package quota

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// seen is a pod as the watch has shown it.
type seen struct {
	pod *v1.Pod
	// node is where Reserve has counted it as it is counted when it is bound there; "" is nowhere.
	node string
	// early is that the watch has not shown it yet: Reserve has come before. It may be gone.
	early bool
}

// pod returns a pod as it was seen last, with mu held; nil is not at all.
func (q *Quota) pod(uid types.UID) *v1.Pod {
	if s := q.pods[uid]; s != nil {
		return s.pod
	}
	return nil
}

// Seen takes a pod as the watch has it now.
func (q *Quota) Seen(pod *v1.Pod) {
	q.mu.Lock()
	s := q.pods[pod.UID]
	if s != nil && q.holdsAsBefore(s, pod) {
		s.pod, s.early = pod, false
		q.mu.Unlock()
		return
	}
	q.mu.Unlock()
	if s == nil && !request.AsksForGPUs(pod) {
		return
	}
	q.changeIf(func() (changed bool, moved *v1.Pod) {
		if request.Ended(pod) {
			return q.forget(pod.UID), nil
		}
		was := q.pod(pod.UID)
		q.pods[pod.UID] = &seen{pod: pod}
		changed = q.take(pod)
		switch {
		case q.book == nil:
		case pod.Spec.NodeName != "":
			q.hold(pod, q.read.Held(pod, pod.Spec.NodeName))
			return true, nil
		case was != nil && q.works[pod.UID] != "" && q.read.Queue(was) != q.read.Queue(pod):
			q.drop(q.works[pod.UID])
			return true, pod
		case was != nil && queues.NamesOther(was, pod):
			moved = q.unmix(pod)
		}
		return changed || moved != nil, moved
	})
}

// holdsAsBefore notes a pod that holds, or asks for, the same as before: then no other may go on because of it. It
// reports whether that is so. mu is held.
func (q *Quota) holdsAsBefore(s *seen, now *v1.Pod) bool {
	was := s.pod
	if queues.CountAlike(was, now) || s.node != "" && s.node == now.Spec.NodeName && queues.BoundAlike(was, now) {
		return true
	}
	leaves := was.DeletionTimestamp == nil && now.DeletionTimestamp != nil || request.Ended(now)
	return q.book != nil && now.Spec.NodeName != "" && !leaves && q.runs(was, now)
}

// runs notes how far a pod is that holds the same as before, with mu held; ok is false where it may hold
// something else, or count for another user: an owner may have been seen after its pod.
func (q *Quota) runs(was, now *v1.Pod) (ok bool) {
	h, holds := q.book.Holder(string(now.UID))
	if !holds || !queues.HoldAlike(was, now) || h.User == "" && q.read.User(now) != "" {
		return false
	}
	if queues.Runs(&h, now); h.Owner == "" {
		h.Owner = q.read.OwnerOf(now)
	}
	q.book.Hold(&h)
	q.version++ // it may be a victim now
	return true
}

// Gone takes a pod that is deleted.
func (q *Quota) Gone(uid types.UID) {
	q.changeIf(func() (changed bool, lead *v1.Pod) {
		if pod := q.pod(uid); pod != nil && q.book != nil {
			lead = q.unmix(pod)
		}
		return q.forget(uid), lead
	})
}

// unmix takes the gang of a pod out of its line if it waits because its pods were of several
// queues, and returns its leader, which is to be tried again: a member has changed. mu is held. It is
// tried once more a second later, as what plans gangs may hear of the change after this.
func (q *Quota) unmix(pod *v1.Pod) (lead *v1.Pod) {
	id := queues.Workload(pod)
	if lead = q.outOfLine(id); lead == nil {
		return nil
	}
	time.AfterFunc(time.Second, func() {
		q.mu.Lock()
		lead := q.outOfLine(id)
		q.mu.Unlock()
		q.wake([]*v1.Pod{lead})
	})
	return lead
}

// outOfLine takes a gang that waits because its pods were of several queues out of its line, and
// returns its leader; nil is that it does not. mu is held.
func (q *Quota) outOfLine(id string) (lead *v1.Pod) {
	if w := q.asked[id]; q.book != nil && w != nil && w.Mixed && q.leads[id] != nil {
		lead = q.leads[id]
		q.drop(id)
	}
	return lead
}

// forget drops all about a pod, with mu held. It reports whether something was known.
func (q *Quota) forget(uid types.UID) bool {
	pod := q.pod(uid)
	if pod != nil {
		q.objects.Gone(pod)
	}
	delete(q.pods, uid)
	delete(q.allowed, uid)
	delete(q.only, uid)
	if q.book == nil {
		return pod != nil
	}
	_, holds := q.book.Holder(string(uid))
	if id, leads := q.works[uid]; leads {
		q.book.Release(id)
		q.drop(id)
	}
	q.book.Gone(string(uid))
	q.unask(string(uid))
	if pod != nil {
		q.unask(queues.Workload(pod))
	}
	return pod != nil || holds
}

// unask forgets what a workload has asked for when none of its pods is left, with mu held. The last pod is
// looked at first: those of a gang mostly go in their order.
func (q *Quota) unask(id string) {
	w := q.asked[id]
	if w == nil || q.leads[id] != nil {
		return
	}
	for _, p := range slices.Backward(w.Pods) {
		if q.pods[types.UID(p.ID)] != nil {
			return
		}
	}
	delete(q.asked, id)
}

// leave takes a workload of pods out of its line, with mu held: one that is in a line has a lead.
func (q *Quota) leave(id string) {
	if lead := q.leads[id]; lead != nil {
		q.book.Leave(id)
		delete(q.works, lead.UID)
		delete(q.leads, id)
	}
}

// drop is leave, and forgets what else is known of the workload.
func (q *Quota) drop(id string) {
	q.leave(id)
	delete(q.asked, id)
	delete(q.retried, id)
	delete(q.called, id)
}

// hold counts a pod that has a node and holds these, with mu held.
func (q *Quota) hold(pod *v1.Pod, held []quota.Piece) {
	name := q.read.Queue(pod)
	if name == "" {
		q.book.Gone(string(pod.UID))
		return
	}
	h := queues.Holder(pod, name, q.read.User(pod), held, q.Least)
	h.Owner = q.read.OwnerOf(pod)
	q.book.Hold(&h)
}
