package sim

import (
	"cmp"
	"math/rand"
	"slices"
	"time"

	"berth.dev/berth/core/forecast"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
)

// How starts are estimated.
const (
	draws     = 5
	furthest  = 72 * time.Hour // starts after it are not known
	shortWait = 10 * time.Minute
)

// StartErrors are the errors of the starts that were estimated for jobs when they came and had to wait. An error is the
// difference to the wait that came, over that wait, or over ten minutes if that is longer.
type StartErrors struct {
	Jobs, Unknown int     // asked, and of those without an answer: more than three days
	MedianError   float64 // of the median of five draws
	// Covered is the part of the jobs that started by the corrected time by which nine of ten should, and Corrected how
	// many had one: see forecast.Accuracy.
	Covered   float64
	Corrected int
}

// estimates estimates the starts of some jobs.
type estimates struct {
	every    int
	waiting  map[*forecast.Job]estimated
	accuracy *forecast.Accuracy
	done     []compared
}

type estimated struct {
	wait  time.Duration
	known bool
	p90   time.Duration // corrected; 0 is none
}

type compared struct {
	estimated
	came  time.Duration
	large bool
}

func newEstimates(q *Queue, jobs int) *estimates {
	e := &estimates{waiting: map[*forecast.Job]estimated{}, accuracy: forecast.NewAccuracy()}
	if q.Estimates > 0 {
		e.every = max(1, jobs/q.Estimates)
	}
	return e
}

// arrived estimates the start of job i, which has just come, if it is one of the sample and waits.
func (e *estimates) arrived(r *queueRun, i int) error {
	j := r.jobs[i]
	if e.every == 0 || j.At < r.Warm || i%e.every != 0 {
		return nil
	}
	if _, runs := r.began[j]; runs {
		return nil
	}
	var starts []time.Duration
	for k := range draws {
		rng := rand.New(rand.NewSource(int64(i*draws + k)))
		ahead := r.line.Fork(placement.NewBestFit, func(o *forecast.Job, ran time.Duration) time.Duration {
			if r.Rules.Exact {
				return o.Run - ran
			}
			runs := r.times.Of(o.Template)
			if runs.Basis == queue.NoBasis {
				return time.Hour
			}
			return runs.Left(ran, rng.Float64())
		})
		at, ok, err := ahead.StartOf(j.Name, r.yesterday(i), j.At+furthest)
		if err != nil {
			return err
		}
		if !ok {
			at = j.At + furthest + 1
		}
		if starts = append(starts, at); r.Rules.Exact {
			break // all draws are equal
		}
	}
	slices.Sort(starts)
	one := estimated{wait: starts[len(starts)/2] - j.At}
	if one.known = one.wait <= furthest; one.known {
		one.p90, _ = e.accuracy.Corrected(one.wait, j.GPUs, 0.9)
	}
	e.waiting[j] = one
	return nil
}

// yesterday are the jobs of the day before job i, as if they came again, for orders in which who comes later may pass.
func (r *queueRun) yesterday(i int) []*forecast.Job {
	if r.Rules.Order == forecast.Arrival {
		return nil
	}
	var out []*forecast.Job
	now := r.jobs[i].At
	for k := i - 1; k >= 0 && r.jobs[k].At > now-day; k-- {
		for days := time.Duration(1); days <= furthest/day; days++ {
			again := *r.jobs[k]
			again.At, again.Name = again.At+days*day, again.Name+" again"
			out = append(out, &again)
		}
	}
	slices.SortFunc(out, func(a, b *forecast.Job) int { return cmp.Compare(a.At, b.At) })
	return out
}

// started compares the start of a job with what was estimated.
func (e *estimates) started(j *forecast.Job, now time.Duration) {
	one, had := e.waiting[j]
	if !had {
		return
	}
	delete(e.waiting, j)
	came := now - j.At
	if one.known {
		e.accuracy.Came(one.wait, came, j.GPUs)
	}
	e.done = append(e.done, compared{one, came, j.GPUs >= forecast.Large})
}

// sum adds up the estimates of small or large jobs.
func (e *estimates) sum(large bool) StartErrors {
	var o StartErrors
	var errors []float64
	for _, c := range e.done {
		switch {
		case c.large != large:
			continue
		case !c.known:
			o.Unknown++
		default:
			errors = append(errors, (c.wait-c.came).Abs().Seconds()/max(c.came, shortWait).Seconds())
		}
		o.Jobs++
		if c.p90 > 0 {
			o.Corrected++
			if c.came <= c.p90 {
				o.Covered++
			}
		}
	}
	if slices.Sort(errors); len(errors) > 0 {
		o.MedianError = errors[len(errors)/2]
	}
	o.Covered /= float64(max(o.Corrected, 1))
	return o
}
