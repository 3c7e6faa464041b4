package forecast

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
)

// Quota decides which jobs may hold what they ask for. Those that run at the time 0 hold it.
type Quota interface {
	// Admits reports whether there is quota for a job that waits.
	Admits(j *Job) bool
	// Starts and Ends take a job that starts, and one that ends.
	Starts(j *Job)
	Ends(j *Job)
	// Copy returns a Quota that goes on apart.
	Copy() Quota
}

// Use has jobs start only where a quota admits them.
func (t *Timeline) Use(q Quota) { t.quota = q }

// Begin has a job run that began at a time, which may be before 0, on the places that it holds. It is called at the time 0.
func (t *Timeline) Begin(j *Job, began time.Duration, placed []cluster.Placement) error {
	r := &run{Job: j, began: began, ends: after(t.now, max(j.Run-(t.now-began), 1)), placed: placed}
	for i := range placed {
		for _, s := range []*cluster.Snapshot{t.index.Snapshot(), t.after} {
			if err := s.Assume(&placed[i]); err != nil {
				return fmt.Errorf("%s, which runs: %w", j.Name, err)
			}
		}
	}
	for n := range nodesOf(placed) {
		t.on[n] = append(t.on[n], r)
	}
	heap.Push(&t.running, r)
	t.expect(r)
	return nil
}

// Wait has a job wait from the time 0 on, without being tried. Its At may be before 0.
func (t *Timeline) Wait(j *Job) {
	t.index.Arrive(&j.Request)
	t.enter(j)
}

// Run lets the queue go on until no job waits, nothing happens any longer, or a time.
func (t *Timeline) Run(until time.Duration) error {
	if err := t.pass(nil, nil); err != nil {
		return err
	}
	for t.waits > 0 {
		if next, some := t.Next(); !some || next > until {
			break
		}
		if err := t.Step(); err != nil {
			return err
		}
	}
	return nil
}

// Start is when a job is expected to start: in half of the runs by P50, in nine of ten by P90. Never is that in too many it has
// not started until the last moment that was looked at.
type Start struct{ P50, P90 time.Duration }

// Never is later than any time that is looked at.
const Never = never

// Starts runs the queue ahead so many times, each with other run times of those that were learned, until a time, and returns
// when the jobs that wait are expected to start, by name. Jobs without known run times never end. No job comes in between.
func (t *Timeline) Starts(policy placement.Maker, runs int, until time.Duration) (map[string]Start, error) {
	at := map[string][]time.Duration{}
	for k := range runs {
		f := t.Fork(policy, func(j *Job, ran time.Duration) time.Duration { return t.expected(j, ran, quantile(j.Name, k, runs)) })
		f.Started = func(j *Job) { at[j.Name] = append(at[j.Name], f.now) }
		if err := f.Run(until); err != nil {
			return nil, err
		}
	}
	out := make(map[string]Start, t.waits)
	for _, l := range t.lines {
		for _, j := range l.jobs {
			all := slices.Sorted(slices.Values(at[j.Name]))
			out[j.Name] = Start{of(all, runs, 0.5), of(all, runs, 0.9)}
		}
	}
	return out, nil
}

// of is a quantile of times in order, of which those that are missing of n are never.
func of(times []time.Duration, n int, quantile float64) time.Duration {
	if at := int(math.Ceil(quantile*float64(n))) - 1; at < len(times) {
		return times[max(at, 0)]
	}
	return never
}

// quantile is the part of earlier runs that a job runs longer than, in the k-th of n runs of the queue: each job takes each n-th
// part once, and which one is first depends on its name.
func quantile(name string, k, n int) float64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	_, part := math.Modf(float64(h.Sum32())/(1<<32) + (float64(k)+0.5)/float64(n))
	return part
}
