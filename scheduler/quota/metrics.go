package quota

import (
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/quota/metrics"
)

// Bound counts a pod that this scheduler has bound.
func (q *Quota) Bound(pod *v1.Pod) { q.count(pod, q.tallies.Admit) }

// Preempted counts a pod that was evicted for a pod of higher priority.
func (q *Quota) Preempted(pod *v1.Pod) {
	q.count(pod, func(queues []string) { q.tallies.Evict(queues, metrics.EvictedForPriority) })
}

// count has something of a pod counted in its queue and in those above it.
func (q *Quota) count(pod *v1.Pod, count func(queues []string)) {
	if !q.enter() {
		return
	}
	defer q.mu.Unlock()
	h, holds := q.book.Holder(string(pod.UID))
	if !holds {
		if q.pods[pod.UID] == nil && !request.AsksForGPUs(pod) {
			return
		}
		h.Queue = q.read.Queue(pod)
	}
	count(q.book.Tree().Path(h.Queue))
}

// Register shows the metrics of the queues on the /metrics of the process: see metrics.Register.
func (q *Quota) Register() { metrics.Register(q.look) }

// look is what the metrics of queues are made from. There are no series without Queues.
func (q *Quota) look() (out metrics.Look) {
	if !q.enter() {
		return out
	}
	defer q.mu.Unlock()
	out = metrics.Look{Standings: q.book.Standings(), Lines: q.book.Lines(), Tallies: map[string]metrics.Tally{}}
	for name := range out.Lines {
		out.Tallies[name] = q.tallies.Copy(name)
	}
	return out
}
