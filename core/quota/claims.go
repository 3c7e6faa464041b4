package quota

import "time"

// MayReclaim reports whether it is worth while to look for victims for a claim: pods of
// lower priority are in its queue, or another queue borrows and the claim is within its queue's
// nominal quota.
func (b *Book) MayReclaim(c *Claim) bool {
	i, ok := b.tree.ask[c.Queue]
	if !ok {
		return false
	}
	for priority, pods := range b.ranks[c.Queue] {
		if pods > 0 && priority < c.Priority {
			return true
		}
	}
	steps, _ := b.stepsOf(c.Workload, i)
	for _, kinds := range steps {
		for _, kind := range kinds {
			if b.mayReclaim(i, b.needed(c.Workload, kind)) {
				return true
			}
		}
	}
	return false
}

// mayReclaim reports whether another queue borrows, and an amount more in queue i is within its
// nominal quota.
func (b *Book) mayReclaim(i int, v []int64) bool {
	for at := i; at >= 0; at = b.tree.parent[at] {
		parent := b.tree.parent[at]
		if parent < 0 || b.overdraws(i, at, v) {
			continue
		}
		for _, sibling := range b.tree.children[parent] {
			if sibling != at && b.overdrawn(sibling) {
				return true
			}
		}
	}
	return false
}

// overdrawn reports whether a queue holds more than its nominal quota of some resource.
func (b *Book) overdrawn(i int) bool {
	n := len(b.tree.resources)
	for p := i * n; p < (i+1)*n; p++ {
		if b.tree.limits[p] && b.use[p] > b.tree.pool[p] {
			return true
		}
	}
	return false
}

// Claims returns workloads that wait, do not fit, and may have become entitled to what others
// borrow, as their own queue or one above it holds less than before, or the queues have changed. They stay in their lines, and are
// to be tried again, to reclaim it.
func (b *Book) Claims() (call []Workload) {
	eased := b.eased
	if len(eased) == 0 {
		return nil
	}
	b.eased = eased[:0] // nothing is added while this looks
	seen := map[int]bool{}
	var enter func(i int)
	enter = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		if w := b.leaves[i].first; w != nil && b.MayReclaim(&Claim{Workload: &w.Workload, Priority: w.Ticket.Priority}) {
			call = append(call, w.Workload)
		}
		for _, child := range append([]int(nil), b.below[i]...) {
			enter(child)
		}
	}
	for _, i := range eased {
		for at := i; at >= 0; at = b.tree.parent[at] {
			if b.tree.parent[at] >= 0 {
				enter(at)
			}
		}
	}
	return call
}

// Role is RoleOf for a pod by its ID; known is false for one that holds nothing of a queue.
func (b *Book) Role(c *Claim, pod string) (role Role, later time.Time, known bool) {
	h := b.holders[pod]
	if h == nil {
		return Stays, later, false
	}
	role, later = b.RoleOf(c, h)
	return role, later, true
}
