package quota

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// share is how much a queue has, for its turn among its siblings.
type share struct {
	over uint64  // of what its parent has, the part that it borrows, over its weight; of the resource where that is most
	own  uint64  // of its nominal quota, the part that it holds; of the resource where that is most
	used float64 // of the past, over the weight
}

// compare is negative where a has had less than b.
func (a share) compare(b share) int {
	return cmp.Or(cmp.Compare(a.over, b.over), cmp.Compare(a.own, b.own), cmp.Compare(a.used, b.used))
}

// shareOf is the share of queue i: its dominant share of the resources that quotas
// limit.
func (b *Book) shareOf(i int) share {
	t, n := b.tree, len(b.tree.resources)
	weight := t.specs[i].Weight
	if weight <= 0 {
		weight = 1000
	}
	s := share{used: b.decayed[userAt{t.specs[i].Name, ""}].Value * 1000 / float64(weight)}
	from := t.parent[i]
	if from < 0 {
		from = i
	}
	for r := range n {
		p := i*n + r
		if !t.limits[p] {
			continue
		}
		s.over = max(s.over, portion(b.use[p]-t.pool[p], t.total[from*n+r], weight))
		if t.pool[p] > 0 {
			s.own = max(s.own, portion(min(b.use[p], t.pool[p]), t.pool[p], 1000))
		} else {
			s.own = 1_000_000
		}
	}
	return s
}

// portion is a / of / weight, in millionths for a weight of 1000; 0 where a is not
// positive.
func portion(a, of, weight int64) uint64 {
	if a <= 0 {
		return 0
	}
	if of <= 0 || of == Unlimited {
		of = 1
	}
	hi, lo := bits.Mul64(uint64(a), 1_000_000_000)
	if hi >= uint64(of) {
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, uint64(of))
	return q / uint64(weight)
}

// turn is a queue in the order of its siblings.
type turn struct {
	share share
	first *waiter // of its own line, if it has no children
	queue int
}

// compareTurns orders siblings: the smaller share comes first, of equals the one whose
// first waiter comes first, and queues with queues below them last.
func compareTurns(a, b turn) int {
	if c := a.share.compare(b.share); c != 0 {
		return c
	}
	switch {
	case a.first != nil && b.first != nil:
		return cmp.Or(compare(a.first, b.first), cmp.Compare(a.queue, b.queue))
	case a.first != nil:
		return -1
	case b.first != nil:
		return 1
	}
	return cmp.Compare(a.queue, b.queue)
}

// active puts queue i, if it or one below it waits, into the order of its siblings, and so
// its ancestors.
func (b *Book) active(i int) {
	for ; i >= 0; i = b.tree.parent[i] {
		if b.turns[i].queue >= 0 || b.leaves[i].count == 0 && len(b.below[i]) == 0 {
			return
		}
		b.turns[i] = turn{b.shareOf(i), b.leaves[i].first, i}
		if p := b.tree.parent[i]; p >= 0 {
			b.below[p] = slices.Insert(b.below[p], b.place(p, b.turns[i]), i)
		}
	}
}

// inactive takes queue i out of the order of its siblings, and ancestors below which
// nothing else waits.
func (b *Book) inactive(i int) {
	for ; i >= 0 && b.turns[i].queue >= 0; i = b.tree.parent[i] {
		was, p := b.turns[i], b.tree.parent[i]
		if p < 0 {
			b.turns[i].queue = -1
			return
		}
		at := b.place(p, was)
		b.turns[i].queue = -1
		if b.below[p] = slices.Delete(b.below[p], at, at+1); len(b.below[p]) > 0 {
			return
		}
	}
}

// reorder puts queue i and its ancestors in order again, as what they hold has changed.
func (b *Book) reorder(i int) {
	for ; i >= 0; i = b.tree.parent[i] {
		was, p := b.turns[i], b.tree.parent[i]
		if was.queue < 0 || p < 0 {
			continue
		}
		now := turn{b.shareOf(i), b.leaves[i].first, i}
		if now == was {
			continue
		}
		at := b.place(p, was)
		b.below[p] = slices.Delete(b.below[p], at, at+1)
		b.below[p] = slices.Insert(b.below[p], b.place(p, now), i)
		b.turns[i] = now
	}
}

// place is where a turn is, or belongs, among those of the children of queue p.
func (b *Book) place(p int, t turn) int {
	at, _ := slices.BinarySearchFunc(b.below[p], t, func(i int, t turn) int { return compareTurns(b.turns[i], t) })
	return at
}

// settle puts the queues in order of which what they hold has changed.
func (b *Book) settle() {
	for _, i := range b.moved {
		b.reorder(i)
	}
	b.moved = b.moved[:0]
}

// compareUsers orders two users of queue i: the one that holds less comes first, then the
// one that has held less in the past.
func (b *Book) compareUsers(i int, x, y string) int {
	of, and := userAt{b.tree.specs[i].Name, known(x)}, userAt{b.tree.specs[i].Name, known(y)}
	return cmp.Or(
		cmp.Compare(b.priced(of), b.priced(and)), cmp.Compare(b.decayed[of].Value, b.decayed[and].Value),
	)
}

// priced is what a user holds, in the first of the resources that are about all GPUs.
func (b *Book) priced(key userAt) int64 {
	sum := b.users[key]
	for r, name := range b.tree.resources {
		if sum != nil && (name == Equivalents || name == GPUs) {
			return sum[r]
		}
	}
	most := int64(0)
	for _, amount := range sum {
		most = max(most, amount)
	}
	return most
}
