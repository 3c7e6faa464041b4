package kubelet

import (
	"context"
	"math"
	"sync"
	"time"
)

// askedMemory is over how long the work of a model server is averaged.
const askedMemory = 3 * time.Second

// Asked is what is asked of a simulated model server, over all its connections. Safe for concurrent use.
type Asked struct {
	slots chan struct{} // one for each request that it works on; nil is any number
	now   func() time.Time

	mu               sync.Mutex
	running, waiting int
	busy             float64 // the part of its time that it worked, lately
	at               time.Time
}

// NewAsked returns that of a server that works on so many requests at once; 0 is any number.
func NewAsked(slots int, now func() time.Time) *Asked {
	a := &Asked{now: now, at: now()}
	if slots > 0 {
		a.slots = make(chan struct{}, slots)
	}
	return a
}

// Work waits for its turn, and then works for a time. It ends early if the client goes.
func (a *Asked) Work(ctx context.Context, takes time.Duration) {
	a.add(0, 1)
	if a.slots != nil {
		select {
		case a.slots <- struct{}{}:
			defer func() { <-a.slots }()
		case <-ctx.Done():
			a.add(0, -1)
			return
		}
	}
	a.add(1, -1)
	defer a.add(-1, 0)
	select {
	case <-ctx.Done():
	case <-time.After(takes):
	}
}

// Now returns how many requests it works on, and how many wait for their turn.
func (a *Asked) Now() (running, waiting int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running, a.waiting
}

// Busy returns the part of its time that it worked in the last seconds, from 0 to 1: less if it works on fewer requests than it can.
func (a *Asked) Busy() float64 {
	a.add(0, 0)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.busy
}

// add brings the average up to now, and then changes what is asked.
func (a *Asked) add(running, waiting int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, part := a.now(), math.Min(float64(a.running), 1)
	if a.slots != nil {
		part = float64(a.running) / float64(cap(a.slots))
	}
	if since := now.Sub(a.at); since > 0 {
		a.busy = part + (a.busy-part)*math.Exp(-float64(since)/float64(askedMemory))
		a.at = now
	}
	a.running, a.waiting = a.running+running, a.waiting+waiting
}
