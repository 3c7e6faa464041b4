package quota

import (
	"slices"
	"time"
)

// Waiters are the workloads that wait in a queue and in those below it.
type Waiters struct {
	Count int
	Since time.Time // when the first of them began to wait; zero where none waits
}

// plus joins the workloads of two queues.
func (w Waiters) plus(o Waiters) Waiters {
	return Waiters{w.Count + o.Count, Sooner(w.Since, o.Since)}
}

// Sooner returns the earlier of two times, of which zero is never.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Lines returns which workloads wait for quota, by queue. It has every queue of the Tree.
func (b *Book) Lines() map[string]Waiters {
	t := b.tree
	sums, out := make([]Waiters, len(t.specs)), make(map[string]Waiters, len(t.index))
	for _, w := range b.line {
		if i, ok := t.ask[w.Queue]; ok {
			sums[i] = sums[i].plus(Waiters{1, w.Since})
		}
	}
	for i := range slices.Backward(sums) { // queues come after those above them
		if at := t.parent[i]; at >= 0 {
			sums[at] = sums[at].plus(sums[i])
		}
		if !t.own[i] {
			out[t.specs[i].Name] = sums[i]
		}
	}
	return out
}
