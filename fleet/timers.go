package fleet

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// task is a pod or node that has work at some time. run is called by one
// worker at a time.
type task interface{ run(ctx context.Context) }

// alarm wakes one task. It belongs to the task, and is in at most one heap.
type alarm struct {
	task  task
	at    time.Time
	index int // in the heap, from 1; 0 is not set
}

// timers wakes tasks at their time: one heap and one goroutine for the fleet,
// instead of a runtime timer for each of many thousand pods.
type timers struct {
	now  func() time.Time
	fire func(task)

	mu   sync.Mutex
	heap alarms
	wake chan struct{} // the first alarm changed
}

func newTimers(now func() time.Time, fire func(task)) *timers {
	return &timers{now: now, fire: fire, wake: make(chan struct{}, 1)}
}

// never is no time at all.
var never time.Time //nolint:gochecknoglobals // the zero time; never set

// set moves a to at; never takes it off.
func (t *timers) set(a *alarm, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case at.IsZero() && a.index == 0:
		return
	case at.IsZero():
		heap.Remove(&t.heap, a.index-1)
		return
	case a.index != 0:
		if a.at.Equal(at) {
			return
		}
		a.at = at
		heap.Fix(&t.heap, a.index-1)
	default:
		a.at = at
		heap.Push(&t.heap, a)
	}
	if t.heap[0] == a {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// due takes off the alarms whose time has come and returns their tasks, and how
// long the next one is away; 0 is that there is none.
func (t *timers) due() ([]task, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ready []task
	now := t.now()
	for len(t.heap) > 0 {
		wait := t.heap[0].at.Sub(now)
		if wait > 0 {
			return ready, wait
		}
		ready = append(ready, heap.Pop(&t.heap).(*alarm).task)
	}
	return ready, 0
}

// run fires tasks until ctx ends.
func (t *timers) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		ready, wait := t.due()
		for _, task := range ready {
			t.fire(task)
		}
		if wait == 0 {
			wait = time.Hour
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-t.wake:
		}
	}
}

// alarms is a heap by time.
type alarms []*alarm

func (h alarms) Len() int           { return len(h) }
func (h alarms) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h alarms) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *alarms) Push(x any) {
	a := x.(*alarm)
	*h = append(*h, a)
	a.index = len(*h)
}

func (h *alarms) Pop() any {
	old := *h
	a := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	a.index = 0
	return a
}
