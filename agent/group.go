package agent

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
)

// group runs the parts of an agent: the first that ends with an error ends all,
// and what was begun first is let go last.
type group struct {
	ctx   context.Context //nolint:containedctx // of the parts: it lives as long as the group
	parts *errgroup.Group
	lasts []func()
}

func newGroup(ctx context.Context) *group {
	g := &group{}
	g.parts, g.ctx = errgroup.WithContext(ctx)
	return g
}

// run begins a part.
func (g *group) run(part func(ctx context.Context) error) {
	g.parts.Go(func() error { return part(g.ctx) })
}

// last has f run when all parts have ended.
func (g *group) last(f func()) { g.lasts = append(g.lasts, f) }

// wait waits until the parts have ended, and gives why they did; nil is that the
// context from outside did.
func (g *group) wait() error {
	err := g.parts.Wait()
	for _, f := range slices.Backward(g.lasts) {
		f()
	}
	return err
}
