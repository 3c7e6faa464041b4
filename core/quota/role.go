package quota

import (
	"time"
)

// Claim is a workload that asks for room which others have to give. Its Kinds count the same: see
// Book.Alternatives.
type Claim struct {
	*Workload
	Priority int32 // of the least of its pods
	Never    bool  // it evicts no pods
	Now      time.Time
	// Going are pods that are being evicted, though their objects do not say so yet.
	Going map[string]bool
	// Kept are pods that must not be evicted, by ID.
	Kept map[string]bool
	// Budgets are the disruption budgets that a pod counts on, as positions in Allowed:
	// the evictions that each allows now.
	Budgets func(pod string) []int
	Allowed []int
}

// Role is what a claim may do to a holder.
type Role uint8

// The roles.
const (
	Stays   Role = iota
	Yields       // it is of the claim's own queue, and of lower priority
	Borrows      // its queue has borrowed what the claim's queue has as nominal quota
	Spared       // the same, but it goes after all others: it has been evicted MostEvictions times
	Leaves       // it ends anyway
)

// The rules for evicting others to give quota back.
const (
	// young is how much of its time a workload may lose to be evicted before
	// patience is over: it is little.
	young = time.Hour
	// patience is how long a claim waits before a workload goes that loses more, or that has been evicted MostEvictions times.
	patience = time.Hour
)

// kind is the kind of GPUs that the claim is for.
func (c *Claim) kind() Kind {
	if len(c.Kinds) > 0 {
		return c.Kinds[0]
	}
	return Kind{}
}

// RoleOf reports whether a holder may be evicted for a claim, if its queue still borrows. A
// claim takes from other queues what they have borrowed, as far as its own queue, or the
// ancestor of its own that lends to them, stays within its nominal quota; whatever
// the priorities are. later is when it may be, if it is only too early.
//
// A workload that borrows goes at the earliest when it has run for its queue's MinRunTime, and
// one that would lose more than an hour, or that has been evicted MostEvictions times, only after the
// claim has waited for an hour.
func (b *Book) RoleOf(c *Claim, h *Holder) (role Role, later time.Time) {
	mine, ok := b.tree.ask[c.Queue]
	theirs, there := b.tree.ask[h.Queue]
	switch {
	case !ok || !there || h.Workload == c.ID:
		return Stays, later
	case h.Leaving || c.Going[h.ID]:
		return Leaves, later
	case c.Never || c.Kept[h.ID]:
		return Stays, later
	case mine == theirs && h.Priority < c.Priority:
		return Yields, later
	case mine == theirs || !b.entitled(c, mine, theirs):
		return Stays, later
	}
	from := h.Start
	if from.IsZero() {
		from = c.Now
	}
	later = from.Add(b.tree.specs[theirs].MinRunTime)
	spared := b.spared(h, c.Now)
	if spared || h.Saves.Lost(from, c.Now) > young {
		if then := c.Since.Add(patience); c.Since.IsZero() || then.After(later) {
			later = then
			if c.Since.IsZero() {
				later = c.Now.Add(patience)
			}
		}
	}
	if later.After(c.Now) {
		return Stays, later
	}
	if spared {
		return Spared, time.Time{}
	}
	return Borrows, time.Time{}
}

// Takes reports whether a claim may evict pods of other queues, now or when they are not too young any longer: RoleOf names no other
// that Borrows, is Spared, or may go later. It looks at queues and not at pods.
func (b *Book) Takes(c *Claim) bool {
	mine, ok := b.tree.ask[c.Queue]
	if !ok || c.Never {
		return false
	}
	for theirs := range b.tree.specs {
		if theirs != mine && b.exceeds(theirs) && b.entitled(c, mine, theirs) {
			return true
		}
	}
	return false
}

// exceeds reports whether a queue holds more than its nominal quota of some resource.
func (b *Book) exceeds(i int) bool {
	n := len(b.tree.resources)
	for p := i * n; p < (i+1)*n; p++ {
		if b.tree.limits[p] && b.use[p] > b.tree.pool[p] {
			return true
		}
	}
	return false
}

// entitled reports whether the claim of queue mine stays within nominal quota where the
// ways of the two queues to the root part, and theirs borrows there.
func (b *Book) entitled(c *Claim, mine, theirs int) bool {
	if b.tree.root[mine] != b.tree.root[theirs] {
		return false
	}
	a, z := b.part(mine, theirs)
	if a < 0 || z < 0 {
		return false
	}
	if b.overdraws(mine, a, b.needed(c.Workload, c.kind())) {
		return false
	}
	return b.borrowing(theirs, z)
}

// overdraws reports whether an amount more in queue i has the queue itself, or one of its
// ancestors, hold more than its nominal quota.
func (b *Book) overdraws(i, ancestor int, v []int64) bool {
	t, n := b.tree, len(b.tree.resources)
	for r, d := range v {
		if !t.limits[i*n+r] {
			continue
		}
		for at := i; d > 0; at = t.parent[at] {
			p := at*n + r
			if at == ancestor {
				if b.use[p]+d > t.pool[p] {
					return true
				}
				break
			}
			d = max(0, b.use[p]+d-t.kept[p]) - max(0, b.use[p]-t.kept[p])
		}
	}
	return false
}

// needed is what a workload needs at least, of a kind where its own is not known.
func (b *Book) needed(w *Workload, kind Kind) []int64 {
	sum := make([]int64, len(b.tree.resources))
	for k := range w.Pods[:w.need()] {
		b.tree.addTo(sum, w.Pods[k].Pieces, kind)
	}
	return sum
}

// part returns the ancestors of two queues, or the queues themselves, that are siblings;
// -1 where one of the queues is the ancestor of the other.
func (b *Book) part(x, y int) (a, z int) {
	t := b.tree
	above := map[int]int{} // of each ancestor of x, the one below it
	for at, below := x, -1; at >= 0; at, below = t.parent[at], at {
		above[at] = below
	}
	for at, below := y, -1; at >= 0; at, below = t.parent[at], at {
		if a, met := above[at]; met {
			return a, below
		}
	}
	return -1, -1
}

// borrowing reports whether every queue from one up to its ancestor holds more than its
// nominal quota of some resource.
func (b *Book) borrowing(from, to int) bool {
	t, n := b.tree, len(b.tree.resources)
	for r := range n {
		if !t.limits[from*n+r] {
			continue
		}
		for at := from; b.use[at*n+r] > t.pool[at*n+r]; at = t.parent[at] {
			if at == to {
				return true
			}
		}
	}
	return false
}

// Borrowed returns how much queues hold and have kept beyond their nominal quotas, of all
// resources together: the sum over the roots, over the queues below them, and so on. It is
// the potential that each eviction for another queue lowers, compared from the root down.
func (b *Book) Borrowed() []int64 {
	var out []int64
	n, depth := len(b.tree.resources), make([]int, len(b.tree.specs))
	for i := range depth {
		if parent := b.tree.parent[i]; parent >= 0 {
			depth[i] = depth[parent] + 1
		}
		for len(out) <= depth[i] {
			out = append(out, 0)
		}
		for p := i * n; p < (i+1)*n; p++ {
			if b.tree.limits[p] {
				out[depth[i]] += max(0, b.use[p]-b.tree.pool[p])
			}
		}
	}
	return out
}
