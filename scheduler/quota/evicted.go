package quota

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/scheduler/quota/metrics"
)

// Return is the eviction of a pod that returns quota.
type Return struct {
	quota.Reclaim
	q     *Quota
	owner string
	of    int // pods that the owner has, this one included
}

// Returns returns the Return that the eviction of a pod for the claim is. It is nil if the pod is in no
// queue, or in the claim's queue, where priorities decide, and for a nil Claim.
func (c *Claim) Returns(pod *v1.Pod) *Return {
	if c == nil || !c.q.enter() {
		return nil
	}
	defer c.q.mu.Unlock()
	from := c.q.read.Queue(pod)
	if from == "" || from == c.claim.Queue {
		return nil
	}
	owner, of := c.q.book.OwnerOf(string(pod.UID))
	if owner == string(pod.UID) { // nothing makes it again
		owner = ""
	}
	return &Return{Reclaim: quota.Reclaim{From: from, By: c.claim.Queue}, q: c.q, owner: owner, of: of}
}

// Done counts the eviction.
func (r *Return) Done() {
	q := r.q
	if !q.enter() {
		return
	}
	defer q.mu.Unlock()
	q.tallies.Evict(q.book.Tree().Path(r.From), metrics.EvictedForQuota)
	if r.owner == "" {
		return
	}
	q.book.Evict(r.owner, r.Reclaim, r.of, time.Now())
	q.evictions.Changed(r.From)
}

// SaveEvicted has save called with the workloads of a queue that were evicted lately, soon after some were.
// If it fails, it is called again.
func (q *Quota) SaveEvicted(save func(queue string, list []quota.Evicted) error) {
	q.evictions.To(save)
}

// SetUsed sets what queues and their users have used in the past, and which workloads were evicted to
// return quota, as the status of their objects says.
func (q *Quota) SetUsed(list []*v1alpha1.Queue) {
	if !q.enter() {
		return
	}
	defer q.mu.Unlock()
	for _, queue := range list {
		for _, u := range queue.Status.Usage {
			q.book.SetUsed(queue.Name, u.User, quota.Decay{Value: float64(u.GPUSeconds), At: u.At.Time})
		}
		for _, e := range queues.Evicted(queue) {
			q.book.SetEvicted(e)
		}
	}
}
