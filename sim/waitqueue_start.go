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

// laterAges is after which waits a start is estimated again.
var laterAges = []time.Duration{time.Hour, 4 * time.Hour, 16 * time.Hour}

// JobSize is a kind of jobs whose estimates are measured apart.
type JobSize uint8

// The sizes.
const (
	SmallJobs JobSize = iota // one pod with fewer than forecast.Large GPUs
	LargeJobs                // one pod with more
	GangJobs                 // several pods
	JobSizes                 // how many there are
)

func sizeOf(j *forecast.Job) JobSize {
	switch {
	case j.Pods > 1:
		return GangJobs
	case j.GPUs >= forecast.Large:
		return LargeJobs
	}
	return SmallJobs
}

// StartErrors are the errors of the starts that were estimated for jobs that had to wait. An error is the
// difference to the wait that came from then on, over that wait, or over ten minutes if that is longer.
type StartErrors struct {
	Estimates, Unknown int     // made, and of those without an answer: more than three days
	MedianError        float64 // of the median of five draws
	// Covered is the part of the estimates whose job started by the corrected time by which nine of ten should, and Corrected how
	// many had one: see forecast.Accuracy. All are corrected by those that were made when jobs came.
	Covered   float64
	Corrected int
}

// estimates estimates the starts of some jobs.
type estimates struct {
	every    int
	waiting  map[*forecast.Job][]estimated // the one that was made when the job came first
	due      []dueAgain                    // by time
	accuracy *forecast.Accuracy
	done     []compared
}

// dueAgain is a job whose start is estimated again at a time.
type dueAgain struct {
	at  time.Duration
	job *forecast.Job
}

type estimated struct {
	at, wait time.Duration
	known    bool
	p90      time.Duration // corrected; 0 is none
}

type compared struct {
	estimated
	came  time.Duration
	later bool
	size  JobSize
}

func newEstimates(q *Queue, jobs int) *estimates {
	e := &estimates{waiting: map[*forecast.Job][]estimated{}, accuracy: forecast.NewAccuracy()}
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
	if err := e.estimate(r, j, i-1, int64(i*draws)); err != nil {
		return err
	}
	for _, age := range laterAges {
		one := dueAgain{j.At + age, j}
		at, _ := slices.BinarySearchFunc(e.due, one, func(a, b dueAgain) int { return cmp.Or(cmp.Compare(a.at, b.at), -1) })
		e.due = slices.Insert(e.due, at, one)
	}
	return nil
}

// again estimates again the starts of those that are due and still wait, while jobs come: so many have.
func (e *estimates) again(r *queueRun, came int) error {
	for len(e.due) > 0 && e.due[0].at <= r.line.Now() && came < len(r.jobs) {
		j := e.due[0].job
		e.due = e.due[1:]
		if made := len(e.waiting[j]); made > 0 {
			if err := e.estimate(r, j, came-1, int64((len(r.jobs)*made+came)*draws)); err != nil {
				return err
			}
		}
	}
	return nil
}

// estimate estimates now when a job that waits starts. Job i was the last that came; the draws begin with a seed.
func (e *estimates) estimate(r *queueRun, j *forecast.Job, i int, seed int64) error {
	now := r.line.Now()
	var starts []time.Duration
	for k := range int64(draws) {
		rng := rand.New(rand.NewSource(seed + k))
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
		at, ok, err := ahead.StartOf(j.Name, r.yesterday(i, now), now+furthest)
		if err != nil {
			return err
		}
		if !ok {
			at = now + furthest + 1
		}
		if starts = append(starts, at); r.Rules.Exact {
			break // all draws are equal
		}
	}
	slices.Sort(starts)
	one := estimated{at: now, wait: starts[len(starts)/2] - now}
	if one.known = one.wait <= furthest; one.known {
		one.p90, _ = e.accuracy.Corrected(one.wait, j.GPUs, 0.9)
	}
	e.waiting[j] = append(e.waiting[j], one)
	return nil
}

// yesterday are the jobs up to job i of the day before a time, as if they came again, for orders in which who comes later may pass.
func (r *queueRun) yesterday(i int, now time.Duration) []*forecast.Job {
	if r.Rules.Order == forecast.Arrival {
		return nil
	}
	var out []*forecast.Job
	for k := i; k >= 0 && r.jobs[k].At > now-day; k-- {
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
	for k, one := range e.waiting[j] {
		came := now - one.at
		if k == 0 && one.known {
			e.accuracy.Came(one.wait, came, j.GPUs)
		}
		e.done = append(e.done, compared{one, came, k > 0, sizeOf(j)})
	}
	delete(e.waiting, j)
}

// sum adds up the estimates that were made when jobs came, or later.
func (e *estimates) sum(later bool) (out [JobSizes]StartErrors) {
	for size := range JobSizes {
		o, errors := &out[size], []float64(nil)
		for _, c := range e.done {
			switch {
			case c.size != size || c.later != later:
				continue
			case !c.known:
				o.Unknown++
			default:
				errors = append(errors, (c.wait-c.came).Abs().Seconds()/max(c.came, shortWait).Seconds())
			}
			o.Estimates++
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
	}
	return out
}
