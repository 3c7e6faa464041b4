package send

import (
	"context"
	"sync"
	"time"

	"berth.dev/berth/metrics/store"
)

// point is a sample with its time.
type point struct {
	store.Sample
	at time.Time
}

// batch is samples of one moment.
type batch struct {
	at      time.Time
	samples []store.Sample
}

// queue holds samples that are not sent yet, the oldest first.
type queue struct {
	most int // samples
	wake chan struct{}

	mu      sync.Mutex
	batches []batch
	count   int
}

func newQueue(most int) *queue { return &queue{most: most, wake: make(chan struct{}, 1)} }

// put adds samples. The oldest batches go for which there is no room; dropped is how many samples they had.
func (q *queue) put(b batch) (dropped int) {
	q.mu.Lock()
	q.batches = append(q.batches, b)
	q.count += len(b.samples)
	for q.count > q.most {
		n := len(q.batches[0].samples)
		q.batches = q.batches[1:]
		q.count, dropped = q.count-n, dropped+n
	}
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return dropped
}

// take removes at most some of the oldest samples. It waits until there are any; none is that ctx has ended.
func (q *queue) take(ctx context.Context, most int) []point {
	for {
		if out := q.first(most); len(out) > 0 {
			return out
		}
		select {
		case <-ctx.Done():
			return nil
		case <-q.wake:
		}
	}
}

func (q *queue) first(most int) (out []point) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.batches) > 0 && len(out) < most {
		b := &q.batches[0]
		n := min(most-len(out), len(b.samples))
		for _, s := range b.samples[:n] {
			out = append(out, point{s, b.at})
		}
		if b.samples = b.samples[n:]; len(b.samples) == 0 {
			q.batches = q.batches[1:]
		}
		q.count -= n
	}
	return out
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count
}
