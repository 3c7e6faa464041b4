package sim

import (
	"math"
	"slices"
	"time"

	"berth.dev/berth/core/forecast"
	"berth.dev/berth/core/queue"
)

// queueRun is one run of Queue under way.
type queueRun struct {
	Queue
	jobs      []*forecast.Job // that come
	failures  []failure
	line      *forecast.Timeline
	times     *queue.RunTimes
	estimates *estimates
	promised  map[string]promised // first, by name
	kept      *forecast.Accuracy  // of promises

	busy  float64 // GPUs that are held
	area  float64 // of busy over the measured span
	clock time.Duration
	began map[*forecast.Job]time.Duration
	waits []measured
	out   QueueRun
}

// measured is a job that came while jobs were measured, and has started for the last time.
type measured struct {
	job  *forecast.Job
	wait time.Duration
}

// slowdown is how much longer a job took than it would have without others.
func (m *measured) slowdown() float64 {
	return float64(m.wait+m.job.Run) / float64(max(m.job.Run, 10*time.Minute))
}

// run lets everything happen in its order: of one time, ends first, then what becomes of nodes, then arrivals.
func (r *queueRun) run() error {
	r.began = map[*forecast.Job]time.Duration{}
	for i := 0; ; {
		end, runs := r.line.Next()
		at := time.Duration(math.MaxInt64)
		if i < len(r.jobs) {
			at = r.jobs[i].At
		}
		var err error
		switch {
		case len(r.failures) > 0 && r.failures[0].at <= at && (!runs || r.failures[0].at < end):
			f := r.failures[0]
			r.failures = r.failures[1:]
			if r.pass(f.at); f.back {
				err = r.line.Return(f.node, f.at)
			} else {
				err = r.line.Fail(f.node, f.at)
			}
		case runs && end <= at:
			r.pass(end)
			err = r.line.Step()
		case i < len(r.jobs):
			r.pass(at)
			if err = r.line.Arrive(r.jobs[i]); err == nil {
				err = r.estimates.arrived(r, i)
			}
			if i++; r.Step != nil && i%100 == 0 && r.Step(i, len(r.jobs)) {
				r.out.Partial = true
				return nil
			}
		default:
			return nil
		}
		if err == nil {
			err = r.estimates.again(r, i)
		}
		if err != nil {
			return err
		}
	}
}

// pass moves the clock on and adds to the area.
func (r *queueRun) pass(to time.Duration) {
	from := max(r.clock, r.Warm)
	if upto := min(to, r.Warm+r.Span); upto > from {
		r.area += r.busy * (upto - from).Seconds()
	}
	r.clock = to
}

// promised is the start that a job was told.
type promised struct {
	since, wait, told time.Duration // wait is as expected
}

// promise tells a job its start: what is expected, corrected by how late earlier promises were kept.
func (r *queueRun) promise(j *forecast.Job, at time.Duration) {
	now := r.line.Now()
	p := promised{since: now, wait: at - now, told: at}
	if wait, ok := r.kept.Corrected(p.wait, j.GPUs, 0.97); ok && !r.Rules.Exact {
		p.told = max(at, now+wait)
	}
	r.promised[j.Name] = p
}

func (r *queueRun) started(j *forecast.Job) {
	r.busy += j.GPUs
	now := r.line.Now()
	if p, had := r.promised[j.Name]; had {
		r.kept.Came(p.wait, now-p.since, j.GPUs)
		r.out.Promises++
		if delete(r.promised, j.Name); now > p.told+10*time.Minute {
			r.out.Late++
		}
	}
	r.began[j] = now
	r.estimates.started(j, now)
}

func (r *queueRun) ended(j *forecast.Job, lost bool) {
	r.busy -= j.GPUs
	began := r.began[j]
	delete(r.began, j)
	now := r.line.Now()
	if lost {
		r.out.Lost++
		r.out.LostGPUHours += j.GPUs * (now - began).Hours()
		return
	}
	if j.At >= r.Warm {
		r.waits = append(r.waits, measured{j, began - j.At})
	}
	r.out.Done = now.Seconds()
}

// sum adds up what was measured.
func (r *queueRun) sum() {
	o := &r.out
	if o.Jobs = len(r.waits); o.Jobs == 0 {
		return
	}
	var slow, wait []float64
	sums, counts := [teams]float64{}, [teams]float64{}
	for i := range r.waits {
		m := &r.waits[i]
		slow, wait = append(slow, m.slowdown()), append(wait, m.wait.Seconds())
		o.MeanWait += m.wait.Seconds() / float64(o.Jobs)
		team := teamOf(m.job.Template)
		sums[team] += m.slowdown()
		counts[team]++
		if m.job.GPUs >= 8 {
			o.LargeJobs++
			o.LargeWait += m.wait.Seconds()
		}
	}
	o.LargeWait /= float64(max(o.LargeJobs, 1))
	slices.Sort(slow)
	slices.Sort(wait)
	o.MedianWait, o.Slowdown99, o.MostSlowdown = wait[len(wait)/2], slow[len(slow)*99/100], slow[len(slow)-1]
	for at := range o.Waits {
		o.Waits[at] = wait[len(wait)*at/100]
	}
	o.UsePercent = 100 * r.area / (r.Span.Seconds() * float64(r.Cluster.TotalGPUs()))
	o.Fairness = jain(sums[:], counts[:])
	o.Starts, o.Later = r.estimates.sum(false), r.estimates.sum(true)
}

// jain is Jain's index of the means of some sums: those of a count of 0 do not count.
//
// Source: Jain, Chiu, Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in Shared
// Computer Systems", DEC-TR-301, 1984.
func jain(sums, counts []float64) float64 {
	n, sum, squares := 0.0, 0.0, 0.0
	for i := range sums {
		if counts[i] > 0 {
			mean := sums[i] / counts[i]
			n, sum, squares = n+1, sum+mean, squares+mean*mean
		}
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (n * squares)
}
