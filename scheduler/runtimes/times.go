// Package runtimes learns how long pods run from those that end, tells when others are expected to end, and remembers what it
// has learned over restarts.
package runtimes

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/runs"
)

// How sure an end has to be: so many earlier runs had ended. A reservation waits for many pods, and one that goes on is enough
// to break it; see docs/decisions/2026-11-27-order-and-reservations.md.
const (
	EndOfOthers = 0.97 // of those that a reservation waits for
	EndOfGuest  = 0.9  // of one that uses what is kept for another until then
)

// mostGangs is of how many gangs it is known that their run has counted.
const mostGangs = 1 << 12

// Times is what a scheduler knows of how long pods run. It is safe for concurrent use.
type Times struct {
	mu      sync.Mutex
	times   *queue.RunTimes
	gangs   map[string]time.Time // when a pod of a gang was last counted: the others ran beside it
	loaded  bool
	early   []ended // before it is loaded
	changed bool    // since the last save
}

// ended is a pod that has ended.
type ended struct {
	of  queue.Template
	ran time.Duration
}

// New returns Times that know nothing yet.
func New() *Times { return &Times{times: queue.NewRunTimes(), gangs: map[string]time.Time{}} }

// Gone takes the last state of a pod that asks for GPUs and is gone. The first of a gang to end counts.
func (t *Times) Gone(pod *v1.Pod, now time.Time) {
	ran, ok := runs.Ended(pod, now)
	if !ok || !request.AsksForGPUs(pod) {
		return
	}
	e := ended{runs.TemplateOf(pod), ran}
	t.mu.Lock()
	defer t.mu.Unlock()
	if unit := queues.Workload(pod); unit != string(pod.UID) {
		if counted, is := t.gangs[unit]; is && request.Since(pod).Before(counted) {
			return
		}
		if len(t.gangs) >= mostGangs {
			clear(t.gangs)
		}
		t.gangs[unit] = now
	}
	if !t.loaded {
		t.early = append(t.early, e)
	}
	t.times.Ended(e.of, e.ran)
	t.changed = true
}

// End returns when a pod is expected to have ended, at a quantile of earlier runs, and not later than it declares; zero is
// that nothing is known of it. A pod without a node is taken to start at now.
func (t *Times) End(pod *v1.Pod, quantile float64, now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	left, ok := runs.Left(pod, t.times, quantile, now)
	if !ok {
		return time.Time{}
	}
	return now.Add(left)
}

// EndOf is End of a pod of a template that declares nothing and has run for a time.
func (t *Times) EndOf(of queue.Template, ran time.Duration, quantile float64, now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	left, ok := runs.LeftOf(of, t.times, quantile, ran)
	if !ok {
		return time.Time{}
	}
	return now.Add(left)
}

// AllEnded is queue.AllEnded of pods.
func (t *Times) AllEnded(pods []*v1.Pod, quantile float64, now time.Time) time.Time {
	ends := make([]time.Time, len(pods))
	for i, pod := range pods {
		ends[i] = t.End(pod, quantile, now)
	}
	return queue.AllEnded(ends, now)
}

// Copy returns what is known now.
func (t *Times) Copy() *queue.RunTimes {
	t.mu.Lock()
	defer t.mu.Unlock()
	return queue.Remembered(t.times.Samples(runs.MostTemplates))
}

// load has what was remembered come before what has been learned since.
func (t *Times) load(list []queue.Sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.times = queue.Remembered(list)
	for _, e := range t.early {
		t.times.Ended(e.of, e.ran)
	}
	t.loaded, t.early = true, nil
}

// unsaved returns what is to be remembered, if it has changed since the last call.
func (t *Times) unsaved() (list []queue.Sample, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.changed || !t.loaded {
		return nil, false
	}
	t.changed = false
	return t.times.Samples(runs.MostTemplates), true
}

// lost notes that what unsaved returned was not saved.
func (t *Times) lost() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = true
}
