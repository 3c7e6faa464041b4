package gate

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// wakeEvery is how often the wake function is called again while requests are held.
const wakeEvery = time.Second

// A Gate lets the requests of one service through. Make one with New.
type Gate struct {
	wake func()

	mu       sync.Mutex
	limits   Limits
	stable   pool
	canary   pool      // empty without a split
	split    *split    // nil is that all requests are for one revision
	waiting  list.List // of *Ticket that wait, in the order of their arrival
	held     int       // length of waiting
	bytes    int64     // of those that wait
	arrivals uint64
	woken    time.Time // when wake was called last
	closed   *Refusal  // for all that come; nil while open
	timer    *time.Timer
	last     time.Time
	refused  int
	meter    meter
}

// A Ticket is one request, from its arrival until it has ended.
type Ticket struct {
	backend  *Backend // that has the request; nil while it is held
	split    *split   // by which the backend was chosen; nil is none
	canary   bool     // the backend is of the canary
	number   uint64   // of its arrival
	bytes    int64
	deadline time.Time
	place    *list.Element // in waiting; nil once it is decided on
	decided  func(error)   // called once when it stops waiting
}

// Backend returns the backend that the request is to go to, once it is let through.
func (t *Ticket) Backend() *Backend { return t.backend }

// New makes a gate without backends. wake is called when requests are held, at once and
// each second after that: it must neither block nor use the gate, and may be nil.
func New(limits Limits, wake func()) *Gate {
	if wake == nil {
		wake = func() {}
	}
	now := time.Now()
	return &Gate{limits: limits.orDefault(), wake: wake, meter: meter{since: now, at: now}}
}

// SetLimits replaces the limits. Requests that are held stay.
func (g *Gate) SetLimits(l Limits) {
	g.mu.Lock()
	if l = l.orDefault(); l == g.limits {
		g.mu.Unlock()
		return
	}
	g.limits = l
	g.unlock(g.dispatch(time.Now()))
}

// SetBackends replaces the addresses. Requests at one that is left out go on there.
func (g *Gate) SetBackends(addresses []string) { g.SetSplit(addresses, nil, "", 0) }

// SetSplit replaces the addresses of both revisions, and the share of the requests that
// the canary gets, in percent. A canary without a name is none.
func (g *Gate) SetSplit(addresses, canaries []string, revision string, percent int) {
	g.mu.Lock()
	had := slices.Concat(g.stable.backends, g.canary.backends)
	g.stable, g.canary = pool{backends: keep(had, addresses)}, pool{}
	if revision != "" {
		g.canary.backends = keep(had, canaries)
	}
	g.split = g.split.with(revision, percent)
	g.unlock(g.dispatch(time.Now()))
}

// keep returns the backends at addresses, of those that there were and new ones.
func keep(had []*Backend, addresses []string) []*Backend {
	now := make([]*Backend, 0, len(addresses))
	for _, a := range addresses {
		i := slices.IndexFunc(had, func(b *Backend) bool { return b.address == a })
		if i < 0 {
			now = append(now, &Backend{address: a})
		} else {
			now = append(now, had[i])
		}
	}
	return now
}

// Empty reports whether there is no backend that requests may go to.
func (g *Gate) Empty() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.stable.backends) == 0 && (len(g.canary.backends) == 0 || g.split.percent == 0)
}

// Bounded reports whether requests in flight at one backend are limited.
func (g *Gate) Bounded() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limits.PerBackend > 0
}

// Splits reports whether requests are divided between two revisions.
func (g *Gate) Splits() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.split != nil
}

// Close refuses all requests that are held or come, for the reason in text, a clause
// such as "the service was deleted".
func (g *Gate) Close(text string) {
	g.mu.Lock()
	g.closed = &Refusal{Closed, text}
	if g.timer != nil {
		g.timer.Stop()
	}
	var calls []func()
	for e := g.waiting.Front(); e != nil; e = g.waiting.Front() {
		calls = append(calls, g.refuse(e.Value.(*Ticket), g.closed))
	}
	g.unlock(calls)
}

// Try lets a request through, which must then be ended by Leave. It returns nil and no
// error if the request has to be held: see Hold.
func (g *Gate) Try() (*Ticket, error) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		g.refused++
		return nil, g.closed
	}
	if g.held > 0 {
		return nil, nil
	}
	t := &Ticket{number: g.arrivals, deadline: now.Add(g.limits.Wait)}
	if !g.give(t, now) {
		return nil, nil
	}
	g.count(now)
	return t, nil
}

// Hold holds a request of some bytes until a backend has room or its time is over.
// decided is called once then, from another goroutine or this one, with nil if the
// request is let through, which must then be ended by Leave, or else a *Refusal.
// Abandon ends a request before that.
func (g *Gate) Hold(bytes int64, decided func(error)) (*Ticket, error) {
	now := time.Now()
	g.mu.Lock()
	var full *Refusal
	switch {
	case g.closed != nil:
		full = g.closed
	case g.held >= g.limits.Held:
		full = tooMany(g.limits)
	case g.bytes+bytes > g.limits.Bytes:
		full = tooLarge(g.limits)
	}
	if full != nil {
		g.refused++
		g.mu.Unlock()
		return nil, full
	}
	t := &Ticket{number: g.arrivals, bytes: bytes, deadline: now.Add(g.limits.Wait), decided: decided}
	g.count(now)
	g.hold(t, now)
	g.unlock(g.dispatch(now))
	return t, nil
}

// count counts a request that has arrived.
func (g *Gate) count(now time.Time) {
	g.arrivals++
	g.last = now
	g.meter.enter(now)
}

// Again asks for another backend for a request that the one it was let through to did
// not take, which is then left alone for a moment. It calls decided as Hold does. The
// request has the place of its arrival among those held, and must go within its time.
func (g *Gate) Again(t *Ticket, decided func(error)) {
	now := time.Now()
	g.mu.Lock()
	t.backend.rest(now)
	t.backend.inFlight--
	t.backend, t.decided = nil, decided
	g.hold(t, now)
	var calls []func()
	switch {
	case g.closed != nil:
		calls = append(calls, g.refuse(t, g.closed))
	case g.held > g.limits.Held:
		calls = append(calls, g.refuse(t, tooMany(g.limits)))
	}
	g.unlock(append(calls, g.dispatch(now)...))
}

// Took notes that the backend of a request took a connection.
func (g *Gate) Took(t *Ticket) {
	if t.backend.refused.Load() > 0 {
		t.backend.refused.Store(0)
	}
}

// Leave ends a request that was let through.
func (g *Gate) Leave(t *Ticket) {
	now := time.Now()
	g.mu.Lock()
	t.backend.inFlight--
	g.last = now
	g.meter.leave(now)
	if g.held == 0 {
		g.mu.Unlock()
		return
	}
	g.unlock(g.dispatch(now))
}

// Abandon ends a request that is held and not decided on yet, and reports whether it
// was that.
func (g *Gate) Abandon(t *Ticket) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.place == nil {
		return false
	}
	g.drop(t)
	g.meter.leave(time.Now())
	return true
}
