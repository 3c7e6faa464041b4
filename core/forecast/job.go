// Package forecast runs a queue of jobs in virtual time: in which order they are tried, which of them may pass those
// before them, where they go, and when they start. The simulator runs it on a trace, with the run times that the jobs had;
// for those that wait in a cluster it is run ahead, with run times drawn from those of earlier jobs.
package forecast

import (
	"math"
	"time"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/queue"
)

// never is later than any time.
const never = time.Duration(math.MaxInt64)

// Job is pods that start together, ask for the same, and end together.
type Job struct {
	Name     string
	At       time.Duration // when it came
	Template queue.Template
	Request  cluster.Request // of each pod
	Pods     int             // at least 1
	Rank     int             // of Order Given, the lowest is tried first
	GPUs     float64         // of all pods
	Limit    time.Duration   // it runs no longer than this; 0 is not known
	// Run is how long it runs. Only Rules.Exact lets decisions depend on it.
	Run time.Duration
}

// Order says in which order jobs that wait are tried.
type Order uint8

// The orders.
const (
	Arrival  Order = iota // the one that came first
	Shortest              // the one that is expected to run for the shortest time
	// Slowdown is by (wait / run)^3 x GPUs, with the run time that is expected, and at least ten minutes: those first that
	// wait longest for how long they run. Jobs of one template keep their order. The exponent keeps long jobs from
	// passing short ones until they have waited several times as long as they run, and lets every job start some time.
	Slowdown
	Given // the one with the lowest rank
)

// shortestRun is the run time below which jobs count as equally short.
const shortestRun = 10 * time.Minute

// Rules are how a queue is run.
type Rules struct {
	Order  Order
	Strict bool // no job passes the first that does not fit
	// Reservations is how many of the first that do not fit get nodes reserved from the earliest time at which they are
	// expected to be free. Others may use them if they are expected to end before, or if there is room beside them.
	Reservations int
	Least        float64 // GPUs; jobs with fewer get no reservation
	Exact        bool    // run times are known beforehand
}

// expected is how long a job that has run for a time is expected to go on, at a quantile of earlier runs.
// It is never if nothing is known.
func (t *Timeline) expected(j *Job, ran time.Duration, quantile float64) time.Duration {
	if t.rules.Exact {
		return max(j.Run-ran, 1)
	}
	left := never
	if runs := t.times.Of(j.Template); runs.Basis != queue.NoBasis {
		left = runs.Left(ran, quantile)
	}
	if j.Limit > 0 {
		left = min(left, max(j.Limit-ran, 1))
	}
	return left
}

// after is the time that comes so long after another; never stays never.
func after(at, length time.Duration) time.Duration {
	if length >= never-at {
		return never
	}
	return at + length
}

// length is how long a job is expected to run, for the order.
func (t *Timeline) length(j *Job) time.Duration {
	if t.rules.Exact {
		return j.Run
	}
	mean := t.times.Of(j.Template).Mean()
	switch {
	case mean == 0:
		return j.Limit
	case j.Limit > 0:
		return min(mean, j.Limit)
	}
	return mean
}

// urgency orders jobs that wait: the highest is tried first, of equal ones the one that came first.
func (t *Timeline) urgency(j *Job) float64 {
	switch t.rules.Order {
	case Shortest:
		return -float64(t.length(j))
	case Slowdown:
		wait := float64(t.now - j.At)
		ratio := wait / float64(max(t.length(j), shortestRun))
		return ratio * ratio * ratio * max(j.GPUs, 0.001)
	case Given:
		return -float64(j.Rank)
	default:
		return 0
	}
}
