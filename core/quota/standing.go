package quota

import (
	"math/bits"
	"slices"
)

// Standing is what a queue, with those below it, has and holds of one resource, in parts.
type Standing struct {
	Resource Resource
	// Nominal is the queue's own, or the sum of those below where it states none.
	Nominal int64
	Used    int64 // held and kept
	// Borrowed is what it holds of the quota of other queues; 0 for a root, which belongs to none.
	Borrowed int64
	// Lent is what other queues hold of its nominal quota. Where several lend to one pool, each lends
	// in proportion to what it leaves unused, in whole parts that add up.
	Lent int64
}

// Standings returns what each queue has and holds of the resources that its tree states, by
// queue. Over the lowest queues of a tree, what is lent adds up to what is borrowed, as long
// as the root holds no more than it has.
func (b *Book) Standings() map[string][]Standing {
	t, n := b.tree, len(b.tree.resources)
	lent := b.lent()
	out := make(map[string][]Standing, len(t.index))
	for i := range t.specs {
		if t.own[i] {
			continue
		}
		name := t.specs[i].Name
		list := []Standing{}
		for r := range n {
			p := i*n + r
			if !t.limits[p] {
				continue
			}
			s := Standing{Resource: t.resources[r], Nominal: t.total[p], Used: b.heldOf(i, r), Lent: lent[p]}
			if t.parent[i] >= 0 {
				s.Borrowed = b.over(p)
			}
			list = append(list, s)
		}
		out[name] = list
	}
	return out
}

// over is what is held of a pool beyond what it has.
func (b *Book) over(p int) int64 { return max(0, b.use[p]-b.tree.pool[p]) }

// lent is what each queue lends, by queue and resource: from the roots down, what the queues
// below a queue borrow, and what is borrowed from the queue itself, less what it borrows
// in turn.
func (b *Book) lent() []int64 {
	t, n := b.tree, len(b.tree.resources)
	out := make([]int64, len(b.use))
	for i := range t.specs {
		for r := range n {
			at := i*n + r
			drawn, spare := out[at]-b.over(at), make([]int64, len(t.children[i]))
			for k, c := range t.children[i] {
				p := c*n + r
				drawn += b.over(p)
				spare[k] = max(0, t.pool[p]-max(b.use[p], t.kept[p]))
			}
			for k, part := range divide(max(0, drawn), spare) {
				out[t.children[i][k]*n+r] = part
			}
		}
	}
	return out
}

// divide returns parts of an amount in proportion to weights, none of which is negative, that
// add up to it and do not exceed their weights; less where the weights are less together.
func divide(amount int64, weights []int64) []int64 {
	out, all := slices.Clone(weights), int64(0)
	for _, w := range weights {
		all = add(all, w)
	}
	if amount >= all {
		return out
	}
	sum, done := int64(0), int64(0)
	for k, w := range weights {
		sum += w
		hi, lo := bits.Mul64(uint64(amount), uint64(sum))
		to, _ := bits.Div64(hi, lo, uint64(all)) // amount < all, so hi < all
		out[k] = int64(to) - done
		done = int64(to)
	}
	return out
}
