// Package quota runs core/quota's Book for one scheduler: it feeds it the pods, says of
// pods that are tried whether their queue has quota for them, and calls those that wait.
package quota

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// trial is how long quota is kept for a pod that is called and does not come.
const trial = 30 * time.Second

// Reader reads objects of Kubernetes as quotas count them. Its functions must be quick,
// and are called from several goroutines.
type Reader struct {
	Queue func(*v1.Pod) string // "" is none
	User  func(*v1.Pod) string // "" is not known
	// Asks is User for a pod that asks for quota; it may ask the API server, once in a while. nil is
	// that User knows all.
	Asks func(*v1.Pod) string
	// Held is what a pod holds on its node; node may be nil.
	Held func(pod *v1.Pod, node string) []quota.Piece
	// Asked is what a pod asks for that may use GPUs in some ways, and the kinds of GPUs that it may
	// use; nil is any.
	Asked func(pod *v1.Pod, allowed sharing.Ways) (asked quota.Pod, kinds []quota.Kind)
	// Kind is what GPUs a node has.
	Kind func(*v1.Node) quota.Kind
	// Labels are the node labels that quotas name.
	Labels []string
	// Owner is the UID of the object that makes a pod again when it has ended, as
	// kube/request.MakerOf returns it; nil is that none is known.
	Owner func(*v1.Pod) string
}

// asks returns the user of a pod that asks for quota.
func (r *Reader) asks(pod *v1.Pod) string {
	if r.Asks == nil {
		return r.User(pod)
	}
	return r.Asks(pod)
}

// Quota is the quotas of one scheduler, for all of its profiles. Where there is no Queue
// in the cluster it counts nothing and lets every pod go on.
//
// Its lock is taken before no other.
type Quota struct {
	on   atomic.Bool
	call func([]*v1.Pod) // puts pods into the active queue; called without mu
	// Least returns how many pods a gang needs, by its key; 0 is not known.
	Least func(gang string) int
	// Holding reports whether devices are held for a pod: see Failed.
	Holding func(types.UID) bool
	// Waiting takes pods that were tried and wait for quota now, the one that was tried first. By default
	// that one is sent to the scheduler's queue once, where PreEnqueue keeps it.
	Waiting func([]*v1.Pod)

	mu      sync.Mutex
	read    Reader
	book    *quota.Book
	pods    map[types.UID]*v1.Pod // with GPUs, not ended
	leads   map[string]*v1.Pod    // whom to call, by workload
	works   map[types.UID]string  // the workload of those in leads
	allowed map[types.UID]*choices
	only    map[types.UID][]quota.Kind // see Narrow
	asked   map[string]*quota.Workload // those called or admitted, until they hold
	objects objects
	timer   *time.Timer
	wakes   time.Time // when timer does
	version int64

	evictions evictions
	tallies   tallies
	again     map[types.UID]time.Time // when pods that lead claims are tried again
	ready     chan struct{}           // closed when it is known which Queues there are; nil: none is waited for
}

// New returns a Quota of a cluster without Queues.
func New() *Quota {
	q := &Quota{
		call: func([]*v1.Pod) {}, Least: func(string) int { return 0 }, Holding: func(types.UID) bool { return false }, pods: map[types.UID]*v1.Pod{}, leads: map[string]*v1.Pod{},
		works: map[types.UID]string{}, allowed: map[types.UID]*choices{}, only: map[types.UID][]quota.Kind{}, asked: map[string]*quota.Workload{}, objects: newObjects(),
		evictions: newEvictions(), tallies: tallies{}, again: map[types.UID]time.Time{},
	}
	q.Waiting = func(pods []*v1.Pod) { q.call(pods[:1]) }
	return q
}

// On reports whether there are Queues.
func (q *Quota) On() bool { return q.on.Load() }

// Version counts the changes after which another answer is possible.
func (q *Quota) Version() int64 {
	if !q.On() {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.version
}

// Seen takes a pod as the watch has it now.
func (q *Quota) Seen(pod *v1.Pod) {
	q.mu.Lock()
	was := q.pods[pod.UID]
	if was != nil && alike(was, pod) {
		q.pods[pod.UID] = pod
		q.mu.Unlock()
		return
	}
	q.mu.Unlock()
	if was == nil && request.Of(pod) == nil {
		return
	}
	var moved *v1.Pod // to another queue
	q.changeIf(func() (counts bool) {
		if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			return q.forget(pod.UID)
		}
		was := q.pods[pod.UID]
		q.pods[pod.UID] = pod
		q.take(pod)
		switch {
		case q.book == nil:
		case pod.Spec.NodeName != "":
			if was == nil || !q.runs(was, pod) {
				q.hold(pod, pod.Spec.NodeName)
			}
			return true
		case was != nil && q.works[pod.UID] != "" && q.read.Queue(was) != q.read.Queue(pod):
			id := q.works[pod.UID]
			q.book.Leave(id)
			q.drop(id)
			moved = pod
			return true
		case was != nil && was.Labels[api.LabelQueue] != pod.Labels[api.LabelQueue]:
			moved = q.unmix(pod)
			return moved != nil
		}
		return false
	})
	q.wake([]*v1.Pod{moved})
}

// alike reports whether all that counts is equal of two versions of a pod.
func alike(was, now *v1.Pod) bool {
	return same(was, now) && was.Status.Phase == now.Status.Phase && (was.DeletionTimestamp != nil) == (now.DeletionTimestamp != nil) && was.Status.StartTime.Equal(now.Status.StartTime)
}

// same reports whether two versions of a pod are of one queue and user, and hold the same. It is false for
// bound pods without committed devices: the status of these may say what they hold.
func same(was, now *v1.Pod) bool {
	_, committed := now.Annotations[api.AnnotationDevices]
	return was.Spec.NodeName == now.Spec.NodeName && (committed || now.Spec.NodeName == "") && maps.Equal(was.Labels, now.Labels) && maps.Equal(was.Annotations, now.Annotations)
}

// runs notes how far a pod is that holds the same as before, with mu held; ok is false where it may hold
// something else.
func (q *Quota) runs(was, now *v1.Pod) (ok bool) {
	h, holds := q.book.Holder(string(now.UID))
	if !holds || !same(was, now) {
		return false
	}
	if queues.Runs(&h, now); h.User == "" {
		h.User = q.read.User(now) // an owner may have been seen after its pod
	}
	if h.Owner == "" && q.read.Owner != nil {
		h.Owner = q.read.Owner(now)
	}
	q.book.Hold(&h)
	return true
}

// Gone takes a pod that is deleted.
func (q *Quota) Gone(uid types.UID) {
	var lead *v1.Pod
	q.changeIf(func() bool {
		if pod := q.pods[uid]; pod != nil && q.book != nil {
			lead = q.unmix(pod)
		}
		return q.forget(uid)
	})
	q.wake([]*v1.Pod{lead})
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
	if w := q.asked[id]; q.book == nil || w == nil || !w.Mixed {
		return nil
	}
	if lead = q.leads[id]; lead != nil {
		q.book.Leave(id)
		q.drop(id)
	}
	return lead
}

// forget drops all about a pod, with mu held. It reports whether something was known.
func (q *Quota) forget(uid types.UID) bool {
	pod := q.pods[uid]
	if pod != nil {
		q.objects.gone(pod)
	}
	delete(q.pods, uid)
	delete(q.allowed, uid)
	delete(q.only, uid)
	if q.book == nil {
		return pod != nil
	}
	_, holds := q.book.Holder(string(uid))
	if id, leads := q.works[uid]; leads {
		q.book.Leave(id)
		q.book.Release(id)
		q.drop(id)
	}
	q.book.Gone(string(uid))
	return pod != nil || holds
}

// drop forgets whom to call for a workload, with mu held.
func (q *Quota) drop(id string) {
	if lead := q.leads[id]; lead != nil {
		delete(q.works, lead.UID)
	}
	delete(q.leads, id)
	delete(q.asked, id)
}

// hold counts a pod that has a node, with mu held.
func (q *Quota) hold(pod *v1.Pod, node string) {
	name := q.read.Queue(pod)
	if name == "" {
		q.book.Gone(string(pod.UID))
		return
	}
	h := queues.Holder(pod, name, q.read.User(pod), q.read.Held(pod, node), q.Least)
	if q.read.Owner != nil {
		h.Owner = q.read.Owner(pod)
	}
	q.book.Hold(h)
}

// SetQueues has the pods counted by other queues, as read says; none ends all counting.
func (q *Quota) SetQueues(specs []quota.Spec, read Reader) {
	q.mu.Lock()
	var call []*v1.Pod
	if len(specs) == 0 {
		for _, lead := range q.leads {
			call = append(call, lead)
		}
		q.book, q.leads, q.works = nil, map[string]*v1.Pod{}, map[types.UID]string{}
		q.asked, q.allowed, q.only = map[string]*quota.Workload{}, map[types.UID]*choices{}, map[types.UID][]quota.Kind{}
	} else {
		q.read = read
		tree := quota.NewTree(specs)
		q.tallies.keep(tree)
		if q.book == nil {
			q.book = quota.NewBook(tree)
		} else {
			was := q.book.Tree()
			for _, id := range q.book.SetTree(tree) {
				call = append(call, q.leads[id])
				q.drop(id)
			}
			call = append(call, q.freed(was, tree)...)
		}
		for _, pod := range q.pods {
			switch {
			case pod.Spec.NodeName != "":
				q.hold(pod, pod.Spec.NodeName)
			case q.allowed[pod.UID] != nil: // it may wait for room, and may use other nodes now
				call = append(call, pod)
			}
		}
	}
	q.on.Store(q.book != nil)
	q.version++
	call = append(call, q.next()...)
	for id := range q.objects.line {
		q.objects.turn(id)
	}
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
	q.book.Expire(now)
	for _, w := range append(q.book.Next(now.Add(trial)), q.book.Claims()...) {
		if !q.objects.turn(types.UID(w.ID)) {
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
