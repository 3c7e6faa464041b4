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

// pool is the backends of one revision.
type pool struct {
	backends []*Backend
	turn     int // the backend that is looked at first
}

// find returns the backend with the fewest requests in flight that has room for one
// more, of equal ones the next in turn; nil if none has.
func (p *pool) find(now time.Time, limits *Limits) *Backend {
	var best *Backend
	n := len(p.backends)
	for i := range n {
		at := (p.turn + i) % n
		b := p.backends[at]
		if most := limits.at(at); most > 0 && b.inFlight >= most || now.Before(b.rests) {
			continue
		}
		if best == nil || b.inFlight < best.inFlight {
			best = b
		}
	}
	return best
}

// next turns to the backend after the one that was looked at first.
func (p *pool) next() { p.turn = (p.turn + 1) % len(p.backends) }

// give sends a request to a backend with room, by the split if there is one; false is
// that none has.
func (g *Gate) give(t *Ticket, now time.Time) bool {
	from, b := &g.stable, g.stable.find(now, &g.limits)
	if s := g.split; s != nil {
		canary := g.canary.find(now, &g.limits)
		toCanary, ok, share := s.share.Choose(s.percent, b != nil, canary != nil)
		if s.share = share; ok && toCanary {
			from, b = &g.canary, canary
		}
	}
	if b == nil {
		return false
	}
	from.next()
	b.inFlight++
	t.backend, t.split, t.canary = b, g.split, from == &g.canary
	return true
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
	for _, p := range []*pool{&g.stable, &g.canary} {
		for _, b := range p.backends {
			if b.rests.After(now) && (first.IsZero() || b.rests.Before(first)) {
				first = b.rests
			}
		}
	}
	return first
}
