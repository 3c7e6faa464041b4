package gate

import (
	"sync/atomic"
	"time"
)

// How long a backend that refused a connection is left alone: doubled each time until
// it takes one.
const (
	firstRest = 20 * time.Millisecond
	lastRest  = time.Second
)

// A Backend is one address that serves requests. Its fields belong to its Gate.
type Backend struct {
	address  string
	inFlight int
	refused  atomic.Int32 // connections in a row
	rests    time.Time    // until then
}

// Address returns where the backend is, as host:port.
func (b *Backend) Address() string { return b.address }

// pick returns the backend with the fewest requests in flight that has room for one
// more, of equal ones the next in turn; nil if none has.
func (g *Gate) pick(now time.Time) *Backend {
	var best *Backend
	n := len(g.backends)
	for i := range n {
		b := g.backends[(g.turn+i)%n]
		if g.limits.PerBackend > 0 && b.inFlight >= g.limits.PerBackend || now.Before(b.rests) {
			continue
		}
		if best == nil || b.inFlight < best.inFlight {
			best = b
		}
	}
	if best != nil {
		g.turn = (g.turn + 1) % n
	}
	return best
}

// rest leaves a backend alone that refused a connection.
func (b *Backend) rest(now time.Time) {
	b.rests = now.Add(min(lastRest, firstRest<<min(b.refused.Load(), 10)))
	b.refused.Add(1)
}

// nextRest returns when the first of the resting backends may be asked again; zero if
// none rests.
func (g *Gate) nextRest(now time.Time) time.Time {
	var first time.Time
	for _, b := range g.backends {
		if b.rests.After(now) && (first.IsZero() || b.rests.Before(first)) {
			first = b.rests
		}
	}
	return first
}
