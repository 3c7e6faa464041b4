package usage

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Source is how the end of an interval is known.
type Source string

// The sources, the best first.
const (
	Going  Source = ""       // it has not ended
	Seen   Source = "seen"   // it ended while the ledger watched
	Stated Source = "stated" // the object says itself when it ended, such as the last container's finishedAt
	// Corrected is Stated by a clock that was off by a known time.
	Corrected Source = "corrected"
	NodeGone  Source = "node" // the node was gone then
	// Recorded is that the agent of its node wrote down when it was gone.
	Recorded Source = "recorded"
	LastSeen Source = "lastSeen" // nothing says more than that it was there at this time, and is gone now
)

// End is how an interval has ended.
type End struct {
	Source Source
	// Late is by how much the interval may have ended later than it says, as nothing is known of that time.
	Late time.Duration
}

// Interval is a time for which a thing has had a value.
type Interval[K cmp.Ordered, V comparable] struct {
	Key      K
	Value    V
	From, To time.Time // To is zero while it goes on
	End      End
}

// Track follows what things are, such as which parts of which node a pod holds: each has one value at a time, or
// none. Its results are to be written down; an Interval with the same Key and From as one before replaces it.
type Track[K cmp.Ordered, V comparable] struct{ open map[K]Interval[K, V] }

// NewTrack returns a Track that goes on from intervals that have not ended.
func NewTrack[K cmp.Ordered, V comparable](open []Interval[K, V]) *Track[K, V] {
	t := &Track[K, V]{open: make(map[K]Interval[K, V], len(open))}
	for _, i := range open {
		t.open[i.Key] = i
	}
	return t
}

// Set notes that a thing has a value, and has had it from a time on if it had no other since. One that had another
// is ended at that time, but not before it began.
func (t *Track[K, V]) Set(key K, value V, from time.Time) (changed []Interval[K, V]) {
	was, has := t.open[key]
	if has && was.Value == value {
		return nil
	}
	if has {
		from = later(from, was.From)
		changed = t.End(key, from, End{Source: Seen})
		if !was.From.Before(from) {
			changed = nil // it is replaced
		}
	}
	now := Interval[K, V]{Key: key, Value: value, From: from}
	t.open[key] = now
	return append(changed, now)
}

// End notes that a thing has no value from a time on, or none since it began to have one.
func (t *Track[K, V]) End(key K, at time.Time, end End) (changed []Interval[K, V]) {
	was, has := t.open[key]
	if !has {
		return nil
	}
	delete(t.open, key)
	was.To, was.End = later(at, was.From), end
	return []Interval[K, V]{was}
}

// Open returns the intervals that go on, in the order of their keys.
func (t *Track[K, V]) Open() []Interval[K, V] {
	out := make([]Interval[K, V], 0, len(t.open))
	for _, key := range slices.Sorted(maps.Keys(t.open)) {
		out = append(out, t.open[key])
	}
	return out
}

// Has reports whether a thing has a value, and which.
func (t *Track[K, V]) Has(key K) (Interval[K, V], bool) {
	i, has := t.open[key]
	return i, has
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
