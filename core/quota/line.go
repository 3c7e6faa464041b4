package quota

import (
	"cmp"
	"slices"
	"time"

	"berth.dev/berth/core/queue"
)

// waiter is a workload that waits for quota.
type waiter struct {
	Workload
	turn  queue.Ticket // see Turn
	shape string
	needs []need
}

// need is what a waiter needs at least if it gets GPUs of a kind, by its number in Book.kinds.
type need struct {
	kind int
	vec  []int64
}

// compare orders waiters of one queue by whose turn comes first.
func compare(a, b *waiter) int { return queue.Compare(a.turn, b.turn) }

// Turn returns what decides when it is the turn of a workload in the line of its queue: its ticket, with the
// priority that counts there, which is at most the ceiling of the queue.
func (b *Book) Turn(w *Workload) queue.Ticket {
	t := w.Ticket
	if w.Line != nil {
		t.Priority = *w.Line
	}
	if i, ok := b.tree.ask[w.Queue]; ok {
		if most := b.tree.specs[i].Ceiling; most != nil {
			t.Priority = min(t.Priority, *most)
		}
	}
	return t
}

// leaf is the workloads that wait in one queue, in lines of those that ask for the same:
// where the first of a line does not fit, none of it does.
type leaf struct {
	lines map[string][]*waiter
	count int
	first *waiter // whose turn is first, whether or not it fits; nil is none
	// oldest is since when the one of the firsts of its lines waits that has waited longest; zero is not known.
	oldest time.Time
}

// Wait puts a workload that Try has refused into the line of its queue, or changes what
// is known of it. Quota that was kept for it is released. One whose queue does not exist waits
// for SetTree.
func (b *Book) Wait(w *Workload) {
	b.Release(w.ID)
	b.Leave(w.ID)
	b.enter(w)
}

func (b *Book) enter(w *Workload) {
	in := &waiter{Workload: *w, turn: b.Turn(w), shape: w.shape()}
	b.line[w.ID] = in
	i, ok := b.tree.ask[w.Queue]
	if !ok {
		return
	}
	in.needs = b.needs(&in.Workload)
	l := &b.leaves[i]
	list := l.lines[in.shape]
	at, _ := slices.BinarySearchFunc(list, in, compare)
	if at == 0 && len(list) > 0 && b.late(list[0].Since) {
		b.frees(i)
	}
	l.lines[in.shape] = slices.Insert(list, at, in)
	l.count++
	b.lower(i, in.needs)
	b.lead(i)
}

// Leave takes a workload out of its line: it has been admitted, or is gone. It reports
// whether it was in one. Quota that is kept for it stays kept.
func (b *Book) Leave(workload string) bool {
	w := b.line[workload]
	if w == nil {
		return false
	}
	delete(b.line, workload)
	i, ok := b.tree.ask[w.Queue]
	if !ok {
		return true
	}
	l := &b.leaves[i]
	if b.late(w.Since) { // those behind it may go on
		b.frees(i)
	}
	list := l.lines[w.shape]
	k, _ := slices.BinarySearchFunc(list, w, compare)
	if list = slices.Delete(list, k, k+1); len(list) == 0 {
		delete(l.lines, w.shape)
	} else {
		l.lines[w.shape] = list
	}
	l.count--
	b.lead(i)
	return true
}

// SetLine changes the priority of a workload that waits in the line of its queue: see Workload.Line.
func (b *Book) SetLine(workload string, line *int32) {
	in := b.line[workload]
	if in == nil || in.Line == line || in.Line != nil && line != nil && *in.Line == *line {
		return
	}
	w := in.Workload
	w.Line = line
	b.Leave(workload)
	b.enter(&w)
}

// lead finds out again whose turn is first in queue i, and puts the queue in order among
// its siblings.
func (b *Book) lead(i int) {
	b.inactive(i)
	l := &b.leaves[i]
	l.first, l.oldest = nil, time.Time{}
	for _, list := range l.lines {
		l.oldest = Sooner(l.oldest, list[0].Since)
		if l.first == nil || b.before(i, list[0], l.first) < 0 {
			l.first = list[0]
		}
	}
	b.active(i)
}

// Waits reports whether a workload waits for quota.
func (b *Book) Waits(workload string) bool { return b.line[workload] != nil }

// Waiting returns the workloads that wait in a queue, in the order of their turns. Their tickets are as Turn
// returns them.
func (b *Book) Waiting(name string) []Workload {
	i, ok := b.tree.ask[name]
	if !ok {
		return nil
	}
	var all []*waiter
	for _, list := range b.leaves[i].lines {
		all = append(all, list...)
	}
	slices.SortFunc(all, func(x, y *waiter) int { return b.before(i, x, y) })
	out := make([]Workload, len(all))
	for k, w := range all {
		out[k] = w.Workload
		out[k].Ticket = w.turn
	}
	return out
}

// Count returns how many workloads wait in a queue, without those below it.
func (b *Book) Count(name string) int {
	if i, ok := b.tree.ask[name]; ok {
		return b.leaves[i].count
	}
	return 0
}

// before orders waiters of queue i: by priority, then where its users take turns by what
// these hold, then by age.
func (b *Book) before(i int, x, y *waiter) int {
	if b.tree.specs[i].FairUsers && x.User != y.User {
		return cmp.Or(cmp.Compare(y.turn.Priority, x.turn.Priority), b.compareUsers(i, x.User, y.User), compare(x, y))
	}
	return compare(x, y)
}
