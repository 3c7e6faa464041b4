// Package quota runs core/quota's Book for one scheduler: it feeds it the pods, says of
// pods that are tried whether their queue has quota for them, and calls those that wait.
package quota

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/scheduler/quota/history"
	"berth.dev/berth/scheduler/quota/metrics"
	"berth.dev/berth/scheduler/quota/objects"
)

// Quota is the quotas of one scheduler, for all of its profiles. Where there is no Queue
// in the cluster it counts nothing and lets every pod go on.
//
// Its lock is taken before no other but that of history.Writer.
type Quota struct {
	on   atomic.Bool
	call func([]*v1.Pod) // puts pods into the active queue; called without mu
	// Least returns how many pods a gang needs, by its key; 0 is not known.
	Least func(gang string) int
	// Holding reports whether devices are held for a pod: see Failed.
	Holding func(types.UID) bool
	// Situation returns what Queues are counted from, without nodes and pods; nil is that there are none. It is set before
	// the scheduler runs.
	Situation func() *queues.Situation
	// OnRead, if not nil, is called once, when Queues are served and were read. It is set before the scheduler runs.
	OnRead func()
	// Waiting takes pods that were tried and wait for quota now, the one that was tried first. By default
	// that one is sent to the scheduler's queue once, where PreEnqueue keeps it.
	Waiting func([]*v1.Pod)

	mu      sync.Mutex
	read    queues.Reader
	book    *quota.Book
	pods    map[types.UID]*seen  // with GPUs, not ended
	leads   map[string]*v1.Pod   // whom to call, by workload
	works   map[types.UID]string // the workload of those in leads
	allowed map[types.UID]*quota.Selection
	only    map[types.UID][]quota.Kind // see Narrow
	asked   map[string]*quota.Workload // those called or admitted, until they hold
	objects objects.Objects
	timer   *time.Timer
	wakes   time.Time // when timer does
	version int64

	evictions *history.Writer
	tallies   metrics.Tallies
	again     map[types.UID]time.Time // when pods that lead claims are tried again
	retried   map[string]bool         // workloads in line that are to be tried again all the same
	called    map[string]bool         // workloads for which quota is kept since next, and that were not tried since
	ready     chan struct{}           // closed when it is known which Queues there are; nil: none is waited for
}

// New returns a Quota of a cluster without Queues.
func New() *Quota {
	q := &Quota{
		call: func([]*v1.Pod) {}, Situation: func() *queues.Situation { return nil }, Least: func(string) int { return 0 }, Holding: func(types.UID) bool { return false }, pods: map[types.UID]*seen{}, leads: map[string]*v1.Pod{},
		works: map[types.UID]string{}, allowed: map[types.UID]*quota.Selection{}, only: map[types.UID][]quota.Kind{}, asked: map[string]*quota.Workload{}, objects: objects.New(),
		tallies: metrics.Tallies{}, again: map[types.UID]time.Time{}, retried: map[string]bool{}, called: map[string]bool{},
	}
	q.evictions = history.NewWriter(q.evictedOf)
	q.Waiting = func(pods []*v1.Pod) { q.call(pods[:1]) }
	return q
}

// On reports whether there are Queues.
func (q *Quota) On() bool { return q.on.Load() }

// enter takes mu if there are Queues, and reports whether it has. Then book is not nil.
func (q *Quota) enter() bool {
	if !q.On() {
		return false
	}
	q.mu.Lock()
	if q.book == nil {
		q.mu.Unlock()
		return false
	}
	return true
}

// CallBy has call put pods into the scheduler's active queue. It is called without a lock, and before
// pods are seen.
func (q *Quota) CallBy(call func([]*v1.Pod)) { q.call = call }

// AwaitQueues has Ready wait until known is called, which is for when it is known which Queues there
// are. It is to be called before any pod is tried.
func (q *Quota) AwaitQueues() (known func()) {
	q.ready = make(chan struct{})
	return sync.OnceFunc(func() { close(q.ready) })
}

// Ready waits until it is known which Queues there are, and reports whether there are any.
func (q *Quota) Ready(ctx context.Context) bool {
	if q.ready != nil && !q.On() {
		select {
		case <-q.ready:
		case <-ctx.Done():
		}
	}
	return q.On()
}

// Version counts the changes after which another answer is possible.
func (q *Quota) Version() int64 {
	if !q.enter() {
		return 0
	}
	defer q.mu.Unlock()
	return q.version
}

// mostEvicted is how many workloads the status of a queue lists.
const mostEvicted = 256

// evictedOf returns the workloads of queues that were evicted lately.
func (q *Quota) evictedOf(queues []string) map[string][]quota.Evicted {
	if !q.enter() {
		return nil
	}
	defer q.mu.Unlock()
	out := make(map[string][]quota.Evicted, len(queues))
	for _, name := range queues {
		out[name] = q.book.EvictedOf(name, mostEvicted, time.Now())
	}
	return out
}
