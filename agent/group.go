package agent

import (
	"context"
	"slices"
	"sync"
)

// group runs the parts of an agent: the first that ends with an error ends all,
// and what was begun first is let go last.
type group struct {
	ctx    context.Context // of the parts; lives as long as the group
	cancel context.CancelCauseFunc
	parts  sync.WaitGroup
	lasts  []func()
	err    error
	once   sync.Once
}

func newGroup(ctx context.Context) *group {
	g := &group{}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	return g
}

// run begins a part.
func (g *group) run(part func(ctx context.Context) error) {
	g.parts.Go(func() {
		if err := part(g.ctx); err != nil {
			g.stop(err)
		}
	})
}

// last has f run when all parts have ended.
func (g *group) last(f func()) { g.lasts = append(g.lasts, f) }

// stop ends all parts because of err, of which the first counts.
func (g *group) stop(err error) {
	g.once.Do(func() {
		g.err = err
		g.cancel(err)
	})
}

// wait waits until the parts have ended, and gives why they did; nil is that the
// context from outside did.
func (g *group) wait() error {
	<-g.ctx.Done()
	g.parts.Wait()
	for _, f := range slices.Backward(g.lasts) {
		f()
	}
	g.once.Do(func() {})
	return g.err
}
