package quota

import (
	"slices"
	"time"
)

// SetNow tells the Book what time it is, for Try and Next: a workload that has waited for an hour is late
// then, and none behind it in the line of its queue is admitted with what it lacks, if it asks for no more than the
// nominal quota of its queue and of those above. So smaller workloads overtake a larger one for an hour at most, and
// it starts at the latest when those that held quota of its queue then have ended. Without it none is late.
//
// Of workloads that ask for the same only the one whose turn is first counts.
func (b *Book) SetNow(now time.Time) { b.now = now }

// late reports whether what has waited since a time is late.
func (b *Book) late(since time.Time) bool {
	return !b.now.IsZero() && !since.IsZero() && !b.now.Before(since.Add(patience))
}

// behind returns the verdict for a workload of queue i that is behind one that is late and asks for some of what that
// lacks; its Cause is None for others.
func (b *Book) behind(i int, w *Workload) (found Verdict) {
	if b.now.IsZero() || len(b.leaves) == 0 || !b.late(b.leaves[i].oldest) || len(b.works[w.ID]) > 0 {
		return found
	}
	in := &waiter{Workload: *w, turn: b.Turn(w)}
	var by *waiter
	for _, list := range b.leaves[i].lines {
		if by != nil && b.before(i, list[0], by) > 0 {
			continue
		}
		if no := b.passed(i, list[0], in); no.Cause != None {
			found, by = no, list[0]
		}
	}
	if by != nil {
		b.behindIn[b.tree.root[i]] = true
	}
	return found
}

// passed returns the verdict for w if first, of the same queue i, is late and before it.
func (b *Book) passed(i int, first, w *waiter) Verdict {
	if !b.late(first.Since) || first.ID == w.ID || b.before(i, w, first) < 0 {
		return Verdict{}
	}
	no := b.try(&first.Workload)
	if no.Cause < BorrowingLimit || !slices.ContainsFunc(b.kindsOf(&first.Workload, i), func(k Kind) bool { return b.nominal(i, b.needed(&first.Workload, k)) }) {
		return Verdict{}
	}
	r := b.tree.resource(no.Resource)
	for _, kind := range b.kindsOf(&w.Workload, i) {
		if asked := b.needed(&w.Workload, kind)[r]; asked > 0 {
			return Verdict{Cause: Behind, Queue: b.tree.specs[i].Name, Resource: no.Resource, Asked: asked, Most: no.Asked}
		}
	}
	return Verdict{}
}

// lookAgain has Next look again at trees in which some are behind one that is late, if what is held there has changed: they may
// not be any longer, such as where its user has more now than a user may.
func (b *Book) lookAgain() {
	for _, i := range b.moved {
		if b.behindIn[b.tree.root[i]] {
			b.frees(i)
		}
	}
}

// kindsOf returns the kinds of GPUs that a workload of queue i may use.
func (b *Book) kindsOf(w *Workload, i int) (all []Kind) {
	steps, _ := b.stepsOf(w, i)
	return slices.Concat(steps...)
}

// nominal reports whether an amount is within the nominal quota of queue i and of each above it.
func (b *Book) nominal(i int, v []int64) bool {
	n := len(v)
	for at := i; at >= 0; at = b.tree.parent[at] {
		for r, asked := range v {
			if p := at*n + r; b.tree.limits[p] && asked > b.tree.pool[p] {
				return false
			}
		}
	}
	return true
}
