package gate

import (
	"time"

	"berth.dev/berth/core/serving"
)

// The windows that a Gate's figures are averaged over.
const (
	Stable = 60 * time.Second
	Panic  = 6 * time.Second
)

// meter averages how many requests are inside over the last seconds.
type meter struct {
	inside  int
	since   time.Time   // when the meter began
	at      time.Time   // until then the seconds are filled
	seconds *[61]second // nil at rest: nothing was inside in the stable window
}

// second is what happened in one second of the clock.
type second struct {
	unix    int64
	area    time.Duration // requests inside times how long
	arrived int
}

// slot returns the entry of a second, emptied if it was of an earlier one.
func (m *meter) slot(unix int64) *second {
	if m.seconds == nil {
		m.seconds = new([61]second)
	}
	s := &m.seconds[unix%int64(len(m.seconds))]
	if s.unix != unix {
		*s = second{unix: unix}
	}
	return s
}

// advance fills the seconds until now with those that are inside.
func (m *meter) advance(now time.Time) {
	if old := now.Add(-Stable - time.Second); m.at.Before(old) {
		m.at = old
	}
	for m.inside > 0 && m.at.Before(now) {
		end := time.Unix(m.at.Unix()+1, 0)
		if end.After(now) {
			end = now
		}
		m.slot(m.at.Unix()).area += time.Duration(m.inside) * end.Sub(m.at)
		m.at = end
	}
	if now.After(m.at) {
		m.at = now
	}
}

// enter counts a request that arrives.
func (m *meter) enter(now time.Time) {
	m.advance(now)
	m.inside++
	m.slot(now.Unix()).arrived++
}

// leave counts a request that ends.
func (m *meter) leave(now time.Time) {
	m.advance(now)
	m.inside--
}

// over returns the mean number of requests inside, and of those that arrived in a
// second, over a window that ends now, to the second.
func (m *meter) over(window time.Duration, now time.Time) (concurrency, rate float64) {
	m.advance(now)
	if m.seconds == nil {
		return 0, 0
	}
	first := now.Unix() - int64(window/time.Second) + 1
	from := time.Unix(first, 0)
	if from.Before(m.since) {
		from = m.since
	}
	var area time.Duration
	arrived := 0
	for i := range m.seconds {
		if s := &m.seconds[i]; s.unix >= first && s.unix <= now.Unix() {
			area += s.area
			arrived += s.arrived
		}
	}
	if window == Stable && m.inside == 0 && area == 0 && arrived == 0 {
		m.seconds = nil
		return 0, 0
	}
	span := now.Sub(from)
	if span <= 0 {
		return float64(m.inside), float64(arrived)
	}
	return area.Seconds() / span.Seconds(), float64(arrived) / max(1, span.Seconds())
}

// Stats are the figures of a service.
type Stats struct {
	InFlight, Held   int            // requests now: at a backend, and held
	Concurrency      float64        // mean of requests in flight and held, over Stable
	PanicConcurrency float64        // the same over Panic
	Rate             float64        // requests that arrive in a second, over Stable
	PanicRate        float64        // the same over Panic
	LastRequest      time.Time      // when the last one arrived or ended; zero if none did
	Arrived, Refused int            // requests since the start: all that were not refused at once, and those refused, at once or later
	Split            *serving.Split // what came of requests by revision; nil is that they are not divided
}

// Stats returns the figures at this moment.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	s := Stats{InFlight: g.meter.inside - g.held, Held: g.held, LastRequest: g.last, Arrived: int(g.arrivals), Refused: g.refused}
	s.Concurrency, s.Rate = g.meter.over(Stable, now)
	s.PanicConcurrency, s.PanicRate = g.meter.over(Panic, now)
	s.Split = g.split.seen(now)
	return s
}

// Plus returns the figures of both together.
func (s Stats) Plus(o Stats) Stats {
	last := s.LastRequest
	if o.LastRequest.After(last) {
		last = o.LastRequest
	}
	return Stats{
		InFlight: s.InFlight + o.InFlight, Held: s.Held + o.Held, Arrived: s.Arrived + o.Arrived, Refused: s.Refused + o.Refused, LastRequest: last,
		Concurrency: s.Concurrency + o.Concurrency, PanicConcurrency: s.PanicConcurrency + o.PanicConcurrency,
		Rate: s.Rate + o.Rate, PanicRate: s.PanicRate + o.PanicRate, Split: s.Split.Plus(o.Split),
	}
}

// Pass counts a request that reaches a backend by another way. The caller calls done when
// it has ended.
func (g *Gate) Pass() (done func()) {
	now := time.Now()
	g.mu.Lock()
	g.count(now)
	g.mu.Unlock()
	return func() {
		now := time.Now()
		g.mu.Lock()
		g.last = now
		g.meter.leave(now)
		g.mu.Unlock()
	}
}
