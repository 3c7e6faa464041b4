package quota

import (
	"slices"
	"time"
)

// SlowNext is Next without lines, passes and sums: it counts everything again for each
// workload that waits, and looks at all of them.
func (b *Book) SlowNext() []string {
	c := NewBook(b.tree)
	for _, h := range b.holders {
		c.Hold(h)
	}
	for pod, k := range b.kept {
		c.Keep(&Workload{ID: k.workload, Queue: k.queue, User: k.user}, []Pod{{ID: pod, Pieces: k.pieces}}, k.kind, k.until)
	}
	c.decayed, c.now = b.decayed, b.now
	waiting := map[*waiter]bool{}
	for _, w := range b.line {
		waiting[w] = true
	}
	var call []string
	for root := range b.tree.specs {
		for b.tree.parent[root] < 0 {
			w, v := c.slowBest(root, waiting)
			if w == nil {
				break
			}
			delete(waiting, w)
			c.Keep(&w.Workload, w.Pods[:v.Count], v.CountedAs(&w.Workload), time.Time{})
			call = append(call, w.ID)
		}
	}
	return call
}

// slowBest looks at all that wait in queue i and below it.
func (b *Book) slowBest(i int, waiting map[*waiter]bool) (own *waiter, verdict Verdict) {
	late := b.lateIn(i, waiting)
	for w := range waiting {
		if slices.ContainsFunc(late, func(l *waiter) bool { return l != w && b.before(i, w, l) > 0 }) {
			continue
		}
		if b.tree.ask[w.Queue] == i && b.Try(&w.Workload).Cause == None && (own == nil || b.before(i, w, own) < 0) {
			own, verdict = w, b.Try(&w.Workload)
		}
	}
	if own != nil {
		return own, verdict
	}
	children := slices.Clone(b.tree.children[i])
	turnOf := func(c int) turn {
		t := turn{share: b.shareOf(c), queue: c}
		for w := range waiting {
			if b.tree.ask[w.Queue] == c && (t.first == nil || b.before(c, w, t.first) < 0) {
				t.first = w
			}
		}
		return t
	}
	slices.SortFunc(children, func(x, y int) int { return compareTurns(turnOf(x), turnOf(y)) })
	for _, c := range children {
		if w, v := b.slowBest(c, waiting); w != nil {
			return w, v
		}
	}
	return nil, Verdict{}
}

// Recount reports whether the Book's sums are what is held.
func (b *Book) Recount() bool {
	c := NewBook(b.tree)
	for _, h := range b.holders {
		c.Hold(h)
	}
	for pod, k := range b.kept {
		c.Keep(&Workload{ID: k.workload, Queue: k.queue, User: k.user}, []Pod{{ID: pod, Pieces: k.pieces}}, k.kind, k.until)
	}
	return slices.Equal(b.use, c.use) && slices.Equal(b.held, c.held) && len(b.users) == len(c.users)
}

// OverLimit returns a queue that holds more than it may, if nominal quotas are unchanged.
func (b *Book) OverLimit() string {
	n := len(b.tree.resources)
	for i := range b.tree.specs {
		for r := range n {
			p := i*n + r
			if !b.tree.limits[p] {
				continue
			}
			most := add(b.tree.pool[p], b.tree.borrow[p])
			if b.tree.parent[i] < 0 {
				most = b.tree.pool[p]
			}
			if b.use[p] > most {
				return b.tree.specs[i].Name
			}
		}
	}
	return ""
}

// Entitled reports whether a claim stays within the nominal quota of its queue and of all
// above it.
func (b *Book) Entitled(w *Workload) bool {
	n := len(b.tree.resources)
	v := b.needed(w, (&Claim{Workload: w}).kind())
	for i := b.tree.ask[w.Queue]; i >= 0; i = b.tree.parent[i] {
		for r, asked := range v {
			if p := i*n + r; asked > 0 && b.tree.limits[p] && b.use[p]+asked > b.tree.pool[p] {
				return false
			}
		}
		if i == b.tree.ask[w.Queue] && b.tree.parent[i] >= 0 {
			break
		}
	}
	return true
}

// MayGo reports whether victims may all go for a claim, one workload after the other, in
// some order.
func (b *Book) MayGo(c *Claim, victims []string) bool {
	return b.without(c).mayGo(c, victims)
}

func (b *Book) mayGo(c *Claim, victims []string) bool {
	if len(victims) == 0 {
		return true
	}
	tried := map[string]bool{}
	for _, id := range victims {
		name := b.holders[id].Workload
		if role, _ := b.RoleOf(c, b.holders[id]); role == Stays || tried[name] {
			continue
		}
		tried[name] = true
		left := b.without(c)
		rest := slices.DeleteFunc(slices.Clone(victims), func(id string) bool {
			goes := b.holders[id].Workload == name
			if goes {
				left.drop(id)
			}
			return goes
		})
		if left.mayGo(c, rest) {
			return true
		}
	}
	return false
}

// LowestSums returns what the queues without queues below them lend together, and what they borrow,
// with the parts of queues that serve their own pods.
func (b *Book) LowestSums() (lent, borrowed int64) {
	list, n := b.lent(), len(b.tree.resources)
	for i := range b.tree.specs {
		for p := i * n; p < (i+1)*n; p++ {
			if len(b.tree.children[i]) == 0 && b.tree.limits[p] {
				lent, borrowed = lent+list[p], borrowed+b.over(p)
			}
		}
	}
	return lent, borrowed
}

// Without returns a Book without some pods.
func (b *Book) Without(gone func(id string) bool) *Book {
	c := NewBook(b.tree)
	for id, h := range b.holders {
		if !gone(id) {
			c.Hold(h)
		}
	}
	for pod, k := range b.kept {
		c.Keep(&Workload{ID: k.workload, Queue: k.queue, User: k.user}, []Pod{{ID: pod, Pieces: k.pieces}}, k.kind, k.until)
	}
	return c
}

// lateIn returns those of queue i that have waited for an hour and lack what it has as nominal quota, without those
// after one that asks for the same. All ask for GPUs, so none behind them goes on.
func (b *Book) lateIn(i int, waiting map[*waiter]bool) (out []*waiter) {
	most := int64(Unlimited)
	for at := i; at >= 0; at = b.tree.parent[at] {
		if n := len(b.tree.resources); b.tree.limits[at*n] {
			most = min(most, b.tree.pool[at*n])
		}
	}
	first := map[string]*waiter{}
	for w := range waiting {
		if b.tree.ask[w.Queue] == i && (first[w.shape] == nil || compare(w, first[w.shape]) < 0) {
			first[w.shape] = w
		}
	}
	for _, w := range first {
		if b.now.Sub(w.Since) < time.Hour {
			continue
		}
		if no := b.Try(&w.Workload); (no.Cause == Used || no.Cause == BorrowingLimit) && no.Asked <= most {
			out = append(out, w)
		}
	}
	return out
}
