package queue

import (
	"cmp"
	"slices"
	"time"
)

// Pace bounds how often statuses are written that follow counts: a cluster in which many
// things change is not to spend its time on telling so.
type Pace struct {
	Rate  float64       // writes a second, on average
	Burst int           // writes at once, after a time without any
	Ahead time.Duration // by how much changes that people wait for come before others
	Least float64       // writes a second, however long they take: see Slowed
}

// A write may take slack times as long as usual before there are fewer, and quick in any case. The usual follows writes that take
// longer slowly: it takes so long to become the double.
const (
	slack   = 2
	quick   = 10 * time.Millisecond
	follows = 3 * time.Minute
)

// Writes is how long writes take. Its zero value has seen none.
type Writes struct {
	lately, usual time.Duration
	last          time.Time
}

// Took notes how long one took that ended now. The usual is the shortest of late: a burst of a minute changes it little, and an API server
// that has become slower for good is not busy for hours.
func (w *Writes) Took(d time.Duration, now time.Time) {
	if w.last.IsZero() {
		w.lately, w.usual = d, d
	}
	since := min(max(0, now.Sub(w.last)), follows)
	w.last = now
	w.lately += (d - w.lately) / 4
	w.usual = min(w.usual+time.Duration(float64(w.usual)*since.Seconds()/follows.Seconds()), d)
}

// Slowed is the pace where writes take so long. An API server that answers later than usual is busy, and gets as many times fewer writes.
func (p Pace) Slowed(w Writes) Pace {
	if fair := max(slack*w.usual, quick); w.lately > fair {
		p.Rate = max(p.Least, p.Rate*float64(fair)/float64(w.lately))
	}
	return p
}

// Spent is how many writes have to be earned back, at some time. Its zero value is none.
type Spent struct {
	writes float64
	at     time.Time
}

// Urgency is how soon a change is to be written.
type Urgency uint8

// The urgencies.
const (
	Number  Urgency = iota // it is a number among others
	Awaited                // people wait for it: it comes before numbers that changed a little earlier
	AtOnce                 // it is written whatever was spent
)

// Change is a status that differs from what was last written of it.
type Change struct {
	ID      string
	Since   time.Time // when it first differed
	Urgency Urgency
}

// Due returns the changes to be written now, in the order in which they are to be, and what
// is spent then. In a time d, at most Burst + d·Rate writes are due beside those that are to be written
// at once. The change that has waited longest comes first, so each is due some time.
func (p Pace) Due(list []Change, spent Spent, now time.Time) ([]Change, Spent) {
	spent = Spent{max(0, spent.writes-p.Rate*max(0, now.Sub(spent.at).Seconds())), now}
	var due []Change
	for _, c := range slices.SortedFunc(slices.Values(list), p.compare) {
		if c.Urgency != AtOnce && spent.writes+1 > float64(p.Burst) {
			break
		}
		due = append(due, c)
		spent.writes = min(spent.writes+1, float64(p.Burst))
	}
	return due, spent
}

// compare orders changes by which is written first.
func (p Pace) compare(a, b Change) int {
	since := func(c Change) time.Time {
		if c.Urgency == Awaited {
			return c.Since.Add(-p.Ahead)
		}
		return c.Since
	}
	first := func(c Change) int {
		if c.Urgency == AtOnce {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(first(a), first(b)), since(a).Compare(since(b)), cmp.Compare(a.ID, b.ID))
}
