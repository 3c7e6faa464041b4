package forecast

import (
	"cmp"
	"container/heap"
	"slices"
)

// turn is the first of a line and how urgent it is.
type turn struct {
	*line
	urgency float64
}

// compare is negative if a comes before b; it is 0 only for the same line.
func (a *turn) compare(b *turn) int {
	return cmp.Or(cmp.Compare(b.urgency, a.urgency), cmp.Compare(a.jobs[0].At, b.jobs[0].At), cmp.Compare(a.serial, b.serial))
}

// turns are the turns of one pass, the most urgent first.
type turns struct {
	first []turn // in order; only read
	more  more   // that have come since
}

// some reports whether there is a next turn.
func (o *turns) some() bool { return len(o.first)+len(o.more) > 0 }

// add adds a turn.
func (o *turns) add(t turn) { heap.Push(&o.more, t) }

// next takes the most urgent.
func (o *turns) next() (t turn) {
	if len(o.more) > 0 && (len(o.first) == 0 || o.more[0].compare(&o.first[0]) < 0) {
		return heap.Pop(&o.more).(turn)
	}
	t, o.first = o.first[0], o.first[1:]
	return t
}

// inOrder returns the turns of all lines in their order, valid until the next call. That order changes little from one call
// to the next, and what is nearly in order is sorted in one go.
func (t *Timeline) inOrder() []turn {
	kept := t.turns[:0]
	for _, o := range t.turns {
		if o.listed {
			kept = append(kept, turn{o.line, t.urgency(o.jobs[0])})
		}
	}
	if clear(t.turns[len(kept):]); len(kept) < len(t.lines) {
		for _, l := range t.lines {
			if !l.listed {
				l.listed = true
				kept = append(kept, turn{l, t.urgency(l.jobs[0])})
			}
		}
	}
	slices.SortFunc(kept, func(a, b turn) int { return a.compare(&b) })
	t.turns = kept
	return kept
}

// more is a heap, the most urgent first.
type more []turn

func (h more) Len() int           { return len(h) }
func (h more) Less(i, j int) bool { return h[i].compare(&h[j]) < 0 }
func (h more) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *more) Push(x any) { *h = append(*h, x.(turn)) }

// Pop implements heap.Interface.
func (h *more) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
