package quota

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/quota"
)

// Role is what a claim may do to a pod: a quota.Role, or Free.
type Role uint8

// Free is that the quotas say nothing of a pod: it is of no queue.
const Free Role = 255

// Claim is an Ask that looks for room.
type Claim struct {
	q     *Quota
	claim *quota.Claim
	lead  *v1.Pod
}

// Claim returns the claim of an Ask; nil is that it is of no queue.
func (q *Quota) Claim(a *Ask) *Claim {
	if a == nil || !q.enter() {
		return nil
	}
	defer q.mu.Unlock()
	w := q.workload(a)
	if w == nil {
		return nil
	}
	return &Claim{q, q.claim(a, w), a.Lead}
}

// Takes reports whether the claim may evict pods of other queues, now or later. If not, Roles has no Borrows and no Spared, and no time.
func (c *Claim) Takes() bool {
	if !c.q.enter() {
		return false
	}
	defer c.q.mu.Unlock()
	return c.q.book.Takes(c.claim)
}

// Roles says what the claim may do to each of pods. later is when it may do more, as some are only
// protected for a time; zero is never.
func (c *Claim) Roles(pods []*v1.Pod) (out []Role, later time.Time) {
	out = make([]Role, len(pods))
	for k := range out {
		out[k] = Free
	}
	if !c.q.enter() {
		return out, later
	}
	defer c.q.mu.Unlock()
	for k, pod := range pods {
		if role, when, known := c.q.book.Role(c.claim, string(pod.UID)); known {
			out[k] = Role(role)
			if role == quota.Stays {
				later = quota.Sooner(later, when)
			}
		} else if name := c.q.read.Queue(pod); name != "" && name != c.claim.Queue && c.q.pods[pod.UID] != nil {
			out[k] = Role(quota.Stays) // a promise to a pod of another queue
		}
	}
	return out, later
}

// Room is what a plan for a claim has found.
type Room struct {
	Gone  []string        // pods that end for it, by UID
	Kind  quota.Kind      // of the GPUs that it gets; zero is not known
	Going map[string]bool // pods that are being evicted
	Kept  map[string]bool // pods that must not be
	There func(pod string) bool
	// Budgets are what the eviction of a pod is counted on, as positions in Allowed: the
	// evictions that each allows, those of Gone included.
	Budgets func(pod string) []int
	Allowed []int
}

// Affords reports whether there is quota for the claim on GPUs of a kind, zero if it is not known, while all others stay.
func (c *Claim) Affords(kind quota.Kind) bool {
	if !c.q.enter() {
		return true
	}
	defer c.q.mu.Unlock()
	return c.q.book.Affords(c.of(kind))
}

// of is a copy of the claim for GPUs of a kind.
func (c *Claim) of(kind quota.Kind) *quota.Claim {
	claim, w := *c.claim, *c.claim.Workload
	if kind != (quota.Kind{}) {
		w.Kinds = []quota.Kind{kind}
	}
	claim.Workload = &w
	return &claim
}

// Victims returns pods whose end leaves the claim the quota that it asks for, beside those
// that end for it anyway: see quota.Book.Victims.
func (c *Claim) Victims(r *Room) (victims []string, later time.Time, ok bool) {
	if !c.q.enter() {
		return nil, time.Time{}, true
	}
	defer c.q.mu.Unlock()
	claim := c.of(r.Kind)
	claim.Budgets, claim.Allowed, claim.Kept, claim.Going = r.Budgets, r.Allowed, r.Kept, r.Going
	for _, h := range c.q.book.Holders() {
		if !r.There(h.ID) {
			claim.Kept[h.ID] = true
		}
	}
	return c.q.book.Victims(claim, r.Gone)
}

// Again has the pod that leads the claim tried again at a time.
func (c *Claim) Again(at time.Time) {
	q, uid := c.q, c.lead.UID
	q.mu.Lock()
	defer q.mu.Unlock()
	if was, known := q.again[uid]; known && !at.Before(was) {
		return
	}
	q.again[uid] = at
	time.AfterFunc(time.Until(at), func() { c.retry(at) })
}

// retry has the pod that leads the claim tried.
func (c *Claim) retry(at time.Time) {
	q := c.q
	q.mu.Lock()
	if !q.again[c.lead.UID].Equal(at) { // it was tried sooner
		q.mu.Unlock()
		return
	}
	delete(q.again, c.lead.UID)
	id := c.claim.ID
	lead := q.leads[id]
	if lead != nil && lead.UID == c.lead.UID {
		q.retried[id] = true
	}
	q.mu.Unlock()
	q.call([]*v1.Pod{cmp.Or(lead, c.lead)})
}

// Kind is the kind of a node's GPUs; zero is not known.
func (c *Claim) Kind(node *v1.Node) quota.Kind { return c.q.KindOf(node) }
