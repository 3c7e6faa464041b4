package serving

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Load is what the ready replicas of a service report of their work at a moment.
type Load struct {
	At      time.Time
	Figures []Figure // one for each replica that was read
	Missing int      // ready replicas that could not be read
}

// Figure is what one replica reports.
type Figure struct {
	Value   float64 // of the Metric: percent of the time of its GPUs, or requests that wait in its server
	Running float64 // requests that its server works on, with ByQueue; 0 is also not known
}

// Metrics returns the names of the metrics.
func Metrics() []string {
	return []string{string(ByConcurrency), string(ByRate), string(ByUtilization), string(ByQueue)}
}

// OfReplicas reports whether replicas report a metric themselves, so requests need not be counted for it.
func (m Metric) OfReplicas() bool { return m == ByUtilization || m == ByQueue }

// Target returns the target of a metric that nothing is said of.
func (m Metric) Target() float64 {
	switch m {
	case ByUtilization:
		return DefaultUtilization
	case ByQueue:
		return DefaultQueue
	case ByConcurrency, ByRate:
	}
	return DefaultTarget
}

// loads are the loads of the last StableWindow, the newest last, and what the newest of them have shown of full replicas.
type loads struct {
	all  []loadSum
	full float64 // requests that a replica works on when more wait, as it last was; 0 is not known
}

// loadSum is a Load over all replicas.
type loadSum struct {
	at             time.Time
	value, running float64
}

// note adds a load. One that was added before is not added again, and one of which nothing could be read says nothing.
func (l *loads) note(now time.Time, load *Load) {
	l.all = slices.DeleteFunc(l.all, func(s loadSum) bool { return now.Sub(s.at) > StableWindow })
	if load == nil || len(load.Figures) == 0 || len(l.all) > 0 && !load.At.After(l.all[len(l.all)-1].at) {
		return
	}
	sum, full := loadSum{at: load.At}, 0.0
	for _, f := range load.Figures {
		sum.value, sum.running = sum.value+f.Value, sum.running+f.Running
		if f.Value > 0 {
			full = max(full, f.Running)
		}
	}
	if full > 0 {
		l.full = full
	}
	l.all = append(l.all, sum)
}

// mean returns the mean of the loads since a time; zero without any.
func (l *loads) mean(since time.Time) (value, running float64) {
	n := 0.0
	for _, s := range l.all {
		if !s.at.Before(since) {
			value, running, n = value+s.value, running+s.running, n+1
		}
	}
	if n == 0 {
		return 0, 0
	}
	return value / n, running / n
}

// need is how many replicas the loads of a window need. With ByQueue they are as many as the requests that wait need, and no fewer than
// those that the servers work on fill: a queue that is empty because there are enough replicas ends none.
func (l *loads) need(now time.Time, window time.Duration, s *Scale) int {
	value, running := l.mean(now.Add(-window))
	n := s.count(value)
	if s.Metric == ByQueue && l.full > 0 {
		n = max(n, int(math.Ceil(min(running/l.full-1e-9, mostReplicas))))
	}
	return n
}

// because says by what figure replicas are counted.
func (l *loads) because(now time.Time, s *Scale) string {
	value, _ := l.mean(now.Add(-StableWindow))
	quick, _ := l.mean(now.Add(-PanicWindow))
	if value = max(value, quick); s.Metric == ByUtilization {
		return fmt.Sprintf("GPUs busy for %.0f%% in all, at %g%% a replica", value, s.Target)
	}
	return fmt.Sprintf("%.1f requests wait in the servers, at %g a replica", value, s.Target)
}

// byLoad is Want where replicas report what decides, and requests are not counted.
func (h *History) byLoad(now time.Time, s *Scale, has Replicas) (int, string) {
	n := h.keep(now, s, has, min(max(h.needs(now, s, has, &Traffic{}), s.Min, 1), s.limit()))
	switch _, may := s.ToZero(); {
	case n == 1 && may:
		return n, Uncounted
	case n == s.Min:
		return n, "minReplicas"
	}
	return n, h.loads.because(now, s)
}

// keep is remember for replicas that report what decides: none ends while one of them is not read, and not before StableWindow after the start.
func (h *History) keep(now time.Time, s *Scale, has Replicas, n int) int {
	if s.Metric.OfReplicas() && (has.Load == nil || has.Load.Missing > 0 || now.Sub(h.began) < StableWindow) {
		n = max(n, min(has.Wanted, s.limit()))
	}
	return h.remember(now, s, n)
}
