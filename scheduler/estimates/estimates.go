// Package estimates measures the estimates of when pods start: it estimates what waits when it was submitted, compares that with
// when it starts, and remembers both over restarts. Package core/forecast decides, and kube/explain estimates.
package estimates

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/forecast"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/runs"
)

// A workload counts as just submitted for so long, and without an estimate after so long: that of a gang is known when all
// its pods exist.
const (
	submittedFor = 2 * time.Minute
	unknownAfter = time.Minute
)

// Estimates are those of one scheduler. It is safe for concurrent use.
type Estimates struct {
	mu     sync.Mutex
	came   *forecast.Outcomes
	counts map[result]int
}

// result is how the start of a workload compares with its estimate.
type result struct{ size, how string }

// New returns Estimates that have measured nothing.
func New() *Estimates { return &Estimates{came: &forecast.Outcomes{}, counts: map[result]int{}} }

// workload is what pods with and without nodes say of a workload.
type workload struct {
	lead  *v1.Pod // the oldest that waits; nil is none
	tried bool    // the scheduler has refused one
	pods  int     // that wait
	began time.Time
}

// workloads reads which workloads wait, or have started.
func workloads(pods []*v1.Pod) map[string]*workload {
	out := map[string]*workload{}
	for _, p := range pods {
		if !request.AsksForGPUs(p) || p.Spec.NodeName == "" && p.DeletionTimestamp != nil || len(p.Spec.SchedulingGates) > 0 {
			continue
		}
		id := queues.Workload(p)
		w := out[id]
		if w == nil {
			w = &workload{}
			out[id] = w
		}
		if p.Spec.NodeName != "" {
			if at := request.BoundAt(p); at.After(w.began) {
				w.began = at
			}
			continue
		}
		w.pods++
		w.tried = w.tried || request.Unscheduled(p) != nil
		if w.lead == nil || p.CreationTimestamp.Before(&w.lead.CreationTimestamp) {
			w.lead = p
		}
	}
	return out
}

// Look compares the estimates of workloads that have started, and estimates those that were just submitted and wait. around has
// the pods of the cluster, and is asked for the rest only if some are to be estimated.
func (e *Estimates) Look(pods []*v1.Pod, around func(*forecast.Outcomes) *explain.Situation, now time.Time) error {
	all := workloads(pods)
	news := e.compare(all, now)
	if len(news) == 0 {
		return nil
	}
	e.mu.Lock()
	s := around(e.came)
	e.mu.Unlock()
	starts, err := s.Starts(now)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range news {
		w, name := all[id], runs.Hidden(id)
		likely, known := starts[id]
		if e.came.Has(name) || !known && now.Sub(w.lead.CreationTimestamp.Time) < unknownAfter {
			continue
		}
		one := forecast.Submission{ID: name, At: now, Outcome: forecast.Outcome{GPUs: gpus(w), Estimated: forecast.Never, By: forecast.Never}}
		if s.Queues != nil {
			one.Queue = runs.Hidden(s.Queues.QueueOf(w.lead).Queue)
		}
		if known {
			one.Estimated = likely.At.Sub(now)
			if !likely.By.IsZero() {
				one.By = likely.By.Sub(now)
			}
		}
		e.came.Submitted(one)
	}
	return nil
}

// compare takes which workloads have started or are gone, and returns those that are to be estimated.
func (e *Estimates) compare(all map[string]*workload, now time.Time) (news []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	waiting, names := e.came.Waiting(), map[string]*workload{}
	for id, w := range all {
		if len(waiting) > 0 {
			names[runs.Hidden(id)] = w
		}
	}
	for _, s := range waiting {
		w := names[s.ID]
		switch {
		case w == nil:
			e.came.Left(s.ID)
		case !w.began.IsZero():
			if came, ok := e.came.Started(s.ID, w.began); ok {
				e.counts[resultOf(&came)]++
			}
		}
	}
	for id, w := range all {
		if w.lead != nil && w.tried && w.began.IsZero() && now.Sub(w.lead.CreationTimestamp.Time) < submittedFor && !e.came.Has(runs.Hidden(id)) {
			news = append(news, id)
		}
	}
	return news
}

// gpus is how many GPUs the waiting pods of a workload ask for, each share or device as one.
func gpus(w *workload) float64 {
	n, _ := request.Counted(w.lead)
	return float64(max(n, 1)) * float64(w.pods)
}

// The values of the labels of the metrics.
const (
	sizeSmall = "under-4"
	sizeLarge = "4-and-more"

	howWithin  = "within"  // it started when nine of ten were expected to have
	howLate    = "late"    // it did not
	howUnbound = "unbound" // that was not known
	howUnknown = "unknown" // it had no estimate
)

// sizeOf is the size of a workload.
func sizeOf(o *forecast.Outcome) string {
	if o.Large() {
		return sizeLarge
	}
	return sizeSmall
}

func resultOf(o *forecast.Outcome) result {
	how := howWithin
	switch {
	case o.Estimated == forecast.Never:
		how = howUnknown
	case o.By == forecast.Never:
		how = howUnbound
	case o.Came > o.By:
		how = howLate
	}
	return result{sizeOf(o), how}
}
