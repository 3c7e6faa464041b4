package simulation

import (
	"context"
	"runtime"
	"slices"
	"sync"
)

// parallel does jobs 0 to n-1, in this order as processors become free, and
// gives the error of the first that has one. Those not begun when ctx ends are
// left out. A job tells by step how far it is, and stops where that says so.
func parallel(ctx context.Context, n int, progress func(ended, runs int, done float64), job func(i int, step func(arrived, total int) bool) error) error {
	errs := make([]error, n)
	meter := &meter{report: progress, done: make([]float64, n)}
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		workers.Go(func() {
			for i := range next {
				if ctx.Err() != nil {
					return
				}
				errs[i] = job(i, func(arrived, total int) bool {
					meter.set(i, float64(arrived)/float64(total))
					return ctx.Err() != nil
				})
				meter.set(i, 1)
			}
		})
	}
	workers.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i]
	}
	return nil
}

// meter adds up how far the runs are.
type meter struct {
	mu     sync.Mutex
	report func(ended, runs int, done float64)
	done   []float64
}

func (m *meter) set(i int, done float64) {
	if m.report == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done[i] = done
	ended, sum := 0, 0.0
	for _, d := range m.done {
		sum += d
		if d >= 1 {
			ended++
		}
	}
	m.report(ended, len(m.done), sum/float64(len(m.done)))
}
