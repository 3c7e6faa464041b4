package quota

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Usage integrates what queues, and the users of each, have used: GPUs times seconds, each second
// counting the less the longer ago it is. A Book reads it by SetUsed.
//
// It has no clock and no lock. Its zero value has no queues.
type Usage struct {
	queues map[string]*used
}

// used is the use of one queue.
type used struct {
	half  time.Duration
	since time.Time        // of what was held until then
	users map[string]Decay // "" is the queue
	held  map[string]int64 // parts of GPUs, since then
}

// PastUse is the past use of one user of a queue.
type PastUse struct {
	User string // "" is the queue together
	Decay
}

// Move counts until now what was held since the last call, and from now on what holders of a Book
// hold. A queue that was not there before starts with what was recorded of it, which may be nil;
// until now it counts what those held that have held it since then. The use of queues that are gone
// is forgotten.
func (u *Usage) Move(now time.Time, b *Book, recorded func(queue string) []PastUse) {
	next := make(map[string]*used, b.tree.Len())
	held := b.heldByUser()
	for _, name := range b.tree.Names() {
		spec, _ := b.tree.Spec(name)
		q := u.queues[name]
		if q == nil {
			q = &used{users: map[string]Decay{}}
			for _, r := range recorded(name) {
				q.users[r.User] = b.since(name, r, now, spec.HalfLife)
			}
		} else {
			q.to(now)
		}
		q.half, q.since, q.held = spec.HalfLife, now, held[name]
		next[name] = q
	}
	u.queues = next
}

// to counts until a time what is held.
func (q *used) to(now time.Time) {
	for user := range q.held {
		if _, known := q.users[user]; !known {
			q.users[user] = Decay{At: q.since}
		}
	}
	for user, d := range q.users {
		if d = d.To(now, q.held[user], q.half); d.Value < 1 && q.held[user] == 0 && user != "" {
			delete(q.users, user) // less than a GPU-second
		} else {
			q.users[user] = d
		}
	}
}

// since continues a record to now by what its user holds and has held since then.
func (b *Book) since(queue string, r PastUse, now time.Time, half time.Duration) Decay {
	out := r.To(now, 0, half)
	for _, h := range b.holders {
		if h.Start.IsZero() || r.User != "" && known(h.User) != r.User || !slices.Contains(b.tree.Path(h.Queue), queue) {
			continue
		}
		from := h.Start
		if r.At.After(from) {
			from = r.At
		}
		out.Value += Decay{At: from}.To(now, h.parts(), half).Value
	}
	return out
}

// heldByUser returns the parts of GPUs that the users of each queue, and of those below it, hold; user
// "" is the queue.
func (b *Book) heldByUser() map[string]map[string]int64 {
	out := map[string]map[string]int64{}
	for _, h := range b.holders {
		parts := h.parts()
		for _, name := range b.tree.Path(h.Queue) {
			if out[name] == nil {
				out[name] = map[string]int64{}
			}
			out[name][known(h.User)] += parts
			out[name][""] += parts
		}
	}
	for _, users := range out {
		maps.DeleteFunc(users, func(_ string, parts int64) bool { return parts == 0 })
	}
	return out
}

// Of returns the use of a queue and of the users who have used most, at most so many, by user;
// nil where past use does not count in it.
func (u *Usage) Of(queue string, users int) []PastUse {
	q := u.queues[queue]
	if q == nil || q.half <= 0 {
		return nil
	}
	var out []PastUse
	for user, d := range q.users {
		if user != "" && d.Value >= 1 {
			out = append(out, PastUse{user, d})
		}
	}
	slices.SortFunc(out, func(a, b PastUse) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.User, b.User))
	})
	out = out[:min(len(out), users)]
	if d := q.users[""]; d.Value >= 1 {
		out = append(out, PastUse{"", d})
	}
	slices.SortFunc(out, func(a, b PastUse) int { return cmp.Compare(a.User, b.User) })
	return out
}

// Differs reports whether use is to be recorded again: a value differs from the record, taken to the
// same time, by more than a hundredth, and by more than a GPU-minute.
func Differs(recorded, now []PastUse, half time.Duration) bool {
	was := map[string]Decay{}
	for _, r := range recorded {
		was[r.User] = r.Decay
	}
	for _, n := range now {
		old := was[n.User].To(n.At, 0, half).Value
		delete(was, n.User)
		if d := max(n.Value-old, old-n.Value); d > 60 && d > n.Value/100 {
			return true
		}
	}
	for _, d := range was {
		if d.Value > 60 {
			return true // it does not count any longer
		}
	}
	return false
}

// HeldGPUs returns the parts of GPUs that the pods of each queue, and of those below it, hold.
func (b *Book) HeldGPUs() map[string]int64 {
	out := map[string]int64{}
	for name, users := range b.heldByUser() {
		out[name] = users[""]
	}
	return out
}
