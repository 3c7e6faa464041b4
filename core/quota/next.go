package quota

import (
	"slices"
	"time"
)

// Next returns the workloads that wait and may go on now, in the order of their turns,
// and keeps for each what it asks for until a time. They are out of their lines.
//
// Of siblings in the tree, the one that borrows the smallest part of what its parent has, for its
// weight, comes first; of those that borrow nothing, the one that holds the smallest part of its
// own nominal quota; of equals the one that has used less in the past. So what is free
// goes to those that have least of it, level by level: weighted max-min fairness.
func (b *Book) Next(until time.Time) (call []Workload) {
	b.lookAgain()
	b.settle()
	roots := b.roots
	b.roots = nil
	slices.Sort(roots)
	for _, root := range roots {
		b.freed[root], b.behindIn[root] = false, false
		p := pass{b: b}
		for {
			b.settle()
			w, verdict := p.best(root)
			if w == nil {
				break
			}
			b.Leave(w.ID)
			b.Keep(&w.Workload, w.Pods[:verdict.Count], verdict.CountedAs(&w.Workload), until)
			call = append(call, w.Workload)
		}
	}
	return call
}

// CountedAs returns the kind as which pieces of a workload count whose own is not known, if it goes on as
// v says.
func (v *Verdict) CountedAs(w *Workload) Kind {
	switch {
	case len(v.Choices) > 0:
		return v.Choices[0].Kinds[0]
	case len(w.Kinds) > 0:
		return w.Kinds[0]
	}
	return Kind{}
}

// pass is one look through the lines of a tree of queues.
type pass struct {
	b *Book
	// refused are the first waiters of lines that do not fit. As nothing becomes free
	// during a pass, they stay so.
	refused map[*waiter]bool
}

// best returns the workload of queue i, or of those below it, whose turn it is; nil is
// none.
func (p *pass) best(i int) (*waiter, Verdict) {
	b := p.b
	if b.leaves[i].count == 0 && len(b.below[i]) == 0 || b.tooLittle(i) {
		return nil, Verdict{}
	}
	if len(b.tree.children[i]) == 0 {
		return p.own(i)
	}
	for _, child := range b.below[i] {
		if w, v := p.best(child); w != nil {
			return w, v
		}
	}
	b.raise(i)
	return nil, Verdict{}
}

// own returns the first that fits of those that wait in queue i itself.
func (p *pass) own(i int) (*waiter, Verdict) {
	l := &p.b.leaves[i]
	heads := make([]*waiter, 0, len(l.lines))
	for _, list := range l.lines {
		if !p.refused[list[0]] {
			heads = append(heads, list[0])
		}
	}
	slices.SortFunc(heads, func(x, y *waiter) int { return p.b.before(i, x, y) })
	for _, w := range heads {
		v := p.b.Try(&w.Workload)
		if v.Cause == None {
			return w, v
		}
		if v.Cause == Behind { // until the one before it lacks its own user's quota, or has left
			continue
		}
		if p.refused == nil {
			p.refused = map[*waiter]bool{}
		}
		p.refused[w] = true
	}
	p.b.raise(i)
	return nil, Verdict{}
}

// tooLittle reports that nothing that waits in queue i or below it fits, as each asks for
// more than is free of every kind of GPUs that it may use.
func (b *Book) tooLittle(i int) bool {
	return !slices.ContainsFunc(b.least, func(least []int64) bool { return !b.short(i, least) })
}

// short reports that less is free for queue i than an amount of some resource.
func (b *Book) short(i int, least []int64) bool {
	n := len(b.tree.resources)
	for r := range n {
		if least[i*n+r] == 0 || b.tree.keeps[i*n+r] {
			continue
		}
		if free, _ := b.free(i, r); least[i*n+r] > free {
			return true
		}
	}
	return false
}

// lower notes that what queue i asks for may be as little as needs.
func (b *Book) lower(i int, needs []need) {
	n := len(b.tree.resources)
	for ; i >= 0; i = b.tree.parent[i] {
		for _, need := range needs {
			for r, amount := range need.vec {
				b.least[need.kind][i*n+r] = min(b.least[need.kind][i*n+r], amount)
			}
		}
	}
}

// raise finds out again what those that wait in queue i and below it ask for at least.
func (b *Book) raise(i int) {
	n := len(b.tree.resources)
	for _, least := range b.least {
		for r := range n {
			least[i*n+r] = Unlimited
			for _, child := range b.below[i] {
				least[i*n+r] = min(least[i*n+r], least[child*n+r])
			}
		}
	}
	for _, list := range b.leaves[i].lines {
		for _, need := range list[0].needs {
			for r, amount := range need.vec {
				b.least[need.kind][i*n+r] = min(b.least[need.kind][i*n+r], amount)
			}
		}
	}
}
