package serving

import (
	"fmt"
	"math"
	"time"
)

// Uncounted is why a service that could scale to zero does not.
const Uncounted = "requests are not counted here, so one replica stays"

// Metric is what replicas are counted by.
type Metric string

// The metrics.
const (
	ByConcurrency Metric = "concurrency" // requests that a replica works on at once
	ByRate        Metric = "rps"         // requests a second of a replica
	// ByUtilization and ByQueue are what replicas report: percent of the time of its GPUs, and requests that wait in its server.
	ByUtilization Metric = "gpu-utilization"
	ByQueue       Metric = "queue-depth"
)

// Defaults of a Scale.
const (
	DefaultTarget      = 10                // requests at once; KServe's target of 70 to 100 is for CPUs
	DefaultUtilization = 70                // percent: a GPU that is always busy asks for another one
	DefaultQueue       = 4                 // requests that wait: what a server of a language model takes in a few seconds
	DefaultIdleAfter   = 5 * time.Minute   // after the last request until there are no replicas
	DefaultDownAfter   = 2 * time.Minute   // until fewer are wanted after more were
	panicFactor        = 2                 // times as many replicas as are ready make a panic
	panicFor           = StableWindow      // how long one lasts after its last cause
	mostReplicas       = math.MaxInt32 / 2 // of a target near zero
)

// Scale says how many replicas a service has.
type Scale struct {
	Min, Max  int // Max is at least 1 and Min
	Metric    Metric
	Target    float64       // of Metric, for each replica; above 0
	IdleAfter time.Duration // with Min 0
	DownAfter time.Duration
	// StopAfter is after how long without a request there are no replicas, whatever Min is, as a policy for idle
	// workloads asks; 0 is that there is none. The first request starts Min of them again.
	StopAfter time.Duration
}

// Follows reports whether the number of replicas follows the requests, which then have to be counted.
func (s *Scale) Follows() bool {
	_, stops := s.ToZero()
	return stops || s.Max > s.Min && !s.Metric.OfReplicas()
}

// ToZero returns after how long without a request there may be no replicas, and whether there ever may.
func (s *Scale) ToZero() (after time.Duration, may bool) {
	switch {
	case s.Min > 0:
		return s.StopAfter, s.StopAfter > 0
	case s.StopAfter > 0:
		return min(s.IdleAfter, s.StopAfter), true
	}
	return s.IdleAfter, true
}

// Replicas are those of a service at a moment.
type Replicas struct {
	Wanted int // that its Deployment asks for
	Ready  int
	New    bool  // it has no Deployment yet
	Load   *Load // what those that are ready report, if the Metric is theirs; nil is nothing
}

// History is what Want remembers of one service between calls; the zero value remembers nothing.
type History struct {
	began   time.Time // when it was first asked
	ready   time.Time // when one of the replicas was first ready, since there are some; zero is not yet
	panics  time.Time // until when
	highest int       // what a panic asked for at most
	peaks   []peak    // what was wanted in the last DownAfter, falling, the newest last
	loads   loads     // that replicas have reported
}

// peak is how many replicas were wanted at a time.
type peak struct {
	at time.Time
	n  int
}

// Want is how many replicas a service should have, with why, as the end of a sentence. t is nil where its requests are not
// counted: it then has at least one replica, as nothing would start the first, and no more than Min, unless replicas report what decides.
//
// It wants as many as the average of StableWindow needs, or in a panic, when PanicWindow needs twice those that are ready, as
// that needs and never fewer than before. It takes replicas away only when fewer were wanted for DownAfter, none while requests are held,
// and the last only after the time of ToZero without a request, whatever the averages still are; and none while t is partial. The time in
// which it starts does not count, up to StartsWithin.
func (h *History) Want(now time.Time, s *Scale, has Replicas, t *Traffic) (n int, why string) {
	if h.began.IsZero() {
		h.began = now
	}
	h.loads.note(now, has.Load)
	if has.Wanted == 0 {
		h.ready = time.Time{}
	} else if h.ready.IsZero() && has.Ready > 0 {
		h.ready = now
	}
	switch {
	case t == nil && s.Metric.OfReplicas():
		return h.byLoad(now, s, has)
	case t == nil:
		if _, may := s.ToZero(); may {
			return max(s.Min, 1), Uncounted
		}
		return s.Min, "minReplicas"
	}
	if n, why = h.count(now, s, has, t); t.Partial && n < has.Wanted {
		return has.Wanted, "some requests are not counted at the moment"
	}
	return n, why
}

// count is Want where requests are counted.
func (h *History) count(now time.Time, s *Scale, has Replicas, t *Traffic) (n int, why string) {
	if held := t.Held > 0; held && has.Ready < has.Wanted {
		// A replica that waits for its GPU is what they wait for.
		n := max(min(max(h.needs(now, s, has, t), s.Min, 1), s.limit()), has.Wanted)
		return h.remember(now, s, n), fmt.Sprintf("%d held until a replica is ready", t.Held)
	}
	if after, may := s.ToZero(); may && h.quiet(now, s, after, has, t) {
		h.peaks, h.panics, h.highest = nil, time.Time{}, 0
		if has.Wanted == 0 {
			return 0, "no requests"
		}
		return 0, fmt.Sprintf("no requests for %s", h.least(after))
	}
	n = h.needs(now, s, has, t)
	n = min(max(n, s.Min), s.limit())
	if n == 0 {
		return min(h.keep(now, s, has, 1), max(has.Wanted, 1)), "the last request was not long ago"
	}
	if n = h.keep(now, s, has, n); n == s.Min {
		return n, "minReplicas"
	}
	if s.Metric.OfReplicas() {
		return n, h.loads.because(now, s)
	}
	return n, s.because(t)
}

// limit is the most replicas of a service.
func (s *Scale) limit() int { return max(s.Max, s.Min, 1) }

// because says by what figure replicas are counted.
func (s *Scale) because(t *Traffic) string {
	if s.Metric == ByRate {
		return fmt.Sprintf("%.1f requests/s, at %g a replica", max(t.StableRate, t.PanicRate), s.Target)
	}
	return fmt.Sprintf("%.1f requests at once, at %g a replica", max(t.Stable, t.Panic, float64(t.InFlight+t.Held)), s.Target)
}

// needs is how many replicas the requests need, without limits.
func (h *History) needs(now time.Time, s *Scale, has Replicas, t *Traffic) int {
	stable, quick := s.count(t.Stable), s.count(t.Panic)
	switch {
	case s.Metric == ByRate:
		stable, quick = s.count(t.StableRate), s.count(t.PanicRate)
	case s.Metric.OfReplicas():
		stable, quick = h.loads.need(now, StableWindow, s), h.loads.need(now, PanicWindow, s)
	}
	if t.InFlight+t.Held > 0 {
		stable = max(stable, 1)
	}
	if quick >= panicFactor*max(has.Ready, 1) && quick > 1 {
		h.panics = now.Add(panicFor)
	}
	if !now.Before(h.panics) {
		h.highest = 0
		return stable
	}
	h.highest = max(h.highest, quick, stable)
	return h.highest
}

// count is how many replicas a figure needs.
func (s *Scale) count(figure float64) int {
	if s.Target <= 0 || figure <= 0 {
		return 0
	}
	return int(math.Ceil(min(figure/s.Target-1e-9, mostReplicas)))
}

// remember returns the highest number wanted in the last DownAfter, this one included.
func (h *History) remember(now time.Time, s *Scale, n int) int {
	for len(h.peaks) > 0 && now.Sub(h.peaks[0].at) >= s.DownAfter {
		h.peaks = h.peaks[1:]
	}
	for len(h.peaks) > 0 && h.peaks[len(h.peaks)-1].n <= n {
		h.peaks = h.peaks[:len(h.peaks)-1]
	}
	h.peaks = append(h.peaks, peak{now, n})
	return h.peaks[0].n
}

// quiet reports whether nothing is asked of a service now, and nothing was for so long. One without replicas
// stays so until a request comes; that may have been refused already, and then counts for PanicWindow.
func (h *History) quiet(now time.Time, s *Scale, after time.Duration, has Replicas, t *Traffic) bool {
	switch {
	case t.InFlight+t.Held > 0:
		return false
	case has.New && s.Min > 0:
		return false // it starts as it was asked to, and has the time from then on
	case has.Wanted == 0:
		return t.Last.IsZero() || now.Sub(t.Last) >= min(PanicWindow, after)
	}
	return now.Sub(h.since(t)) >= h.least(after)
}

// StartsWithin is how long a replica may take to be ready before it counts as idle, if nothing is asked of the service. It is the
// default of Knative's progress-deadline.
const StartsWithin = 10 * time.Minute

// least is how long there must have been no request before a service loses its last replica: the time of ToZero once one was ready, and as long as one may take
// to start before.
func (h *History) least(after time.Duration) time.Duration {
	if h.ready.IsZero() {
		return max(after, StartsWithin)
	}
	return after
}

// since is from when on a service may be taken to be idle.
func (h *History) since(t *Traffic) time.Time {
	since := h.began
	for _, at := range []time.Time{h.ready, t.Since, t.Last} {
		if at.After(since) {
			since = at
		}
	}
	return since
}

// Idle is how long after now a service whose requests need no replica may lose its last one; 0 is that this is not the
// next thing to happen.
func (h *History) Idle(now time.Time, s *Scale, has Replicas, t *Traffic) time.Duration {
	after, may := s.ToZero()
	if t == nil || !may || has.Wanted == 0 {
		return 0
	}
	return max(h.since(t).Add(h.least(after)).Sub(now), time.Millisecond)
}
