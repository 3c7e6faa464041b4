package queue

import (
	"slices"
	"time"
)

// patience is how long a pod that comes later leaves the place to the first of
// its line, which has been called and has not come.
const patience = time.Second

// Lines are the pods that fit nowhere, in lines of pods that ask for the same: when
// the first of a line does not fit, none of it does. Only the first is tried again
// when something changes; when it fits, the next is called.
//
// Methods that change a line return the UIDs of the pods to call, which is to try
// them again. Lines do nothing themselves and have no clock and no lock.
type Lines struct {
	byKey map[string]*line
	pods  map[string]*waiter // by UID
}

// line is pods that ask for the same, the first to be served first.
type line struct {
	key  string
	pods []*waiter
	host bool // see Lines.Join
}

// waiter is one pod of a line.
type waiter struct {
	Ticket
	line   *line
	called time.Time // when it was last called; zero is never
	yields bool      // there was room for it, and another came first: so its condition says
	again  bool      // it is tried once more although others come first
}

// NewLines returns Lines without pods.
func NewLines() *Lines { return &Lines{byKey: map[string]*line{}, pods: map[string]*waiter{}} }

// Join puts a pod that fits nowhere into the line of a key. host is that some node
// lacks CPU, memory or room for pods for it. Where the pod was in another line, the
// next of that is called, as by Leave. Those of its line that yielded to it do not
// fit either, and are called once more to be told so: their conditions say that
// they only wait for their turn.
func (l *Lines) Join(t Ticket, key string, host bool, now time.Time) (call []string) {
	w, call := l.enter(t, key, now)
	w.yields, w.again, w.called = false, false, time.Time{}
	w.line.host = host
	for _, other := range w.line.pods {
		if other.yields {
			other.yields, other.again = false, true
			call = append(call, other.UID)
		}
	}
	return call
}

// Yield puts a pod that leaves its place to another into the line of a key.
func (l *Lines) Yield(t Ticket, key string, now time.Time) (call []string) {
	w, call := l.enter(t, key, now)
	w.yields, w.again, w.called = true, false, time.Time{}
	return call
}

// enter puts a pod into the line of a key.
func (l *Lines) enter(t Ticket, key string, now time.Time) (w *waiter, call []string) {
	had := l.pods[t.UID]
	if had != nil && had.line.key == key {
		return had, nil
	}
	if had != nil {
		call = l.drop(had, now)
	}
	in := l.byKey[key]
	if in == nil {
		in = &line{key: key}
		l.byKey[key] = in
	}
	w = &waiter{Ticket: t, line: in}
	at, _ := slices.BinarySearchFunc(in.pods, t, func(w *waiter, t Ticket) int { return Compare(w.Ticket, t) })
	in.pods = slices.Insert(in.pods, at, w)
	l.pods[t.UID] = w
	return w, call
}

// Rank gives a pod that waits another ticket, and so another place in its line. Nothing has
// become free. Where another is first in its line then, it returns the UIDs of that one, which what
// happens from now on must reach, and of the one that was first.
func (l *Lines) Rank(t Ticket) (first, was string) {
	w := l.pods[t.UID]
	if w == nil || Compare(w.Ticket, t) == 0 && w.Over == t.Over {
		return "", ""
	}
	in := w.line
	head := in.pods[0]
	in.pods = slices.Delete(in.pods, slices.Index(in.pods, w), slices.Index(in.pods, w)+1)
	w.Ticket = t
	at, _ := slices.BinarySearchFunc(in.pods, t, func(w *waiter, t Ticket) int { return Compare(w.Ticket, t) })
	if in.pods = slices.Insert(in.pods, at, w); in.pods[0] == head {
		return "", ""
	}
	return in.pods[0].UID, head.UID
}

// drop takes a pod out of its line, and calls the one that is first now if the
// pod was.
func (l *Lines) drop(w *waiter, now time.Time) (call []string) {
	delete(l.pods, w.UID)
	in := w.line
	at := slices.Index(in.pods, w)
	in.pods = slices.Delete(in.pods, at, at+1)
	switch {
	case len(in.pods) == 0:
		delete(l.byKey, in.key)
		return nil
	case at > 0:
		return nil
	}
	in.pods[0].called = now
	return []string{in.pods[0].UID}
}

// Leave takes a pod out of its line, for whatever reason, and calls the one that
// is first then.
func (l *Lines) Leave(uid string, now time.Time) (call []string) {
	if w := l.pods[uid]; w != nil {
		return l.drop(w, now)
	}
	return nil
}

// First returns, for a pod that fits, the UID of another of its line that is to be
// served before it, which is then called. If there is none, the pod is in no line
// from now on, and the next of its line is called.
func (l *Lines) First(t Ticket, key string, now time.Time) (ahead string, call []string) {
	w, in := l.pods[t.UID], l.byKey[key]
	if in != nil && in.pods[0] != w && Compare(in.pods[0].Ticket, t) < 0 {
		if head := in.pods[0]; head.called.IsZero() || now.Sub(head.called) < patience {
			if head.called.IsZero() {
				head.called = now
			}
			return head.UID, []string{head.UID}
		}
	}
	if w != nil {
		call = l.drop(w, now)
	}
	if in = l.byKey[key]; in != nil && !slices.Contains(call, in.pods[0].UID) {
		in.pods[0].called = now
		call = append(call, in.pods[0].UID)
	}
	return "", call
}

// Wake calls the first of every line, in the order of their turns.
func (l *Lines) Wake(now time.Time) (call []string) {
	heads := make([]*waiter, 0, len(l.byKey))
	for _, in := range l.byKey {
		in.pods[0].called = now
		heads = append(heads, in.pods[0])
	}
	slices.SortFunc(heads, func(a, b *waiter) int { return Compare(a.Ticket, b.Ticket) })
	for _, w := range heads {
		call = append(call, w.UID)
	}
	return call
}

// Place reports where a pod is in its line: whether it waits at all, whether it is
// first, and whether CPU, memory or room for pods would help.
func (l *Lines) Place(uid string) (waits, first, host bool) {
	w := l.pods[uid]
	if w == nil {
		return false, true, true
	}
	return true, w.line.pods[0] == w, w.line.host
}

// Behind returns the UID of the pod that stands behind the first of a line; "" is that there is none, or that a pod is not first.
func (l *Lines) Behind(uid string) string {
	w := l.pods[uid]
	if w == nil || w.line.pods[0] != w || len(w.line.pods) == 1 {
		return ""
	}
	return w.line.pods[1].UID
}

// Admits reports whether a pod may be tried: it is in no line, or first, or is to
// be told that it does not fit.
func (l *Lines) Admits(uid string) bool {
	w := l.pods[uid]
	return w == nil || w.again || w.line.pods[0] == w
}

// Has reports whether a pod has been tried before and waits.
func (l *Lines) Has(uid string) bool { return l.pods[uid] != nil }

// Len returns how many pods wait, and in how many lines.
func (l *Lines) Len() (pods, lines int) { return len(l.pods), len(l.byKey) }

// All returns the UIDs of every line in order, the line whose first pod's turn
// comes first at the front.
func (l *Lines) All() [][]string {
	lines := make([]*line, 0, len(l.byKey))
	for _, in := range l.byKey {
		lines = append(lines, in)
	}
	slices.SortFunc(lines, func(a, b *line) int { return Compare(a.pods[0].Ticket, b.pods[0].Ticket) })
	out := make([][]string, len(lines))
	for i, in := range lines {
		for _, w := range in.pods {
			out[i] = append(out[i], w.UID)
		}
	}
	return out
}
