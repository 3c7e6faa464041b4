package agent

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// group runs the parts of an agent: the first that ends with an error ends all, save
// those that are begun again, and what was begun first is let go last.
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

// again runs a part whose failure is its own alone: it is logged as what and told,
// each reason once, and the part is begun again after a while, until the group ends.
func (g *group) again(log *slog.Logger, what string, tell func(error), part func(ctx context.Context) error) {
	g.run(func(ctx context.Context) error {
		said := ""
		for wait := againFirst; ; wait = min(2*wait, againMost) {
			began := time.Now()
			err := part(ctx)
			if ctx.Err() != nil || err == nil {
				return nil //nolint:nilerr // the group ends: the error is due to that
			}
			if err.Error() != said {
				said = err.Error()
				log.Warn(what+"; retrying", "error", err)
				tell(err)
			}
			if time.Since(began) > againMost {
				wait = againFirst
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(wait):
			}
		}
	})
}

// Between the attempts of a part that is begun again; the wait doubles.
const (
	againFirst = time.Second
	againMost  = 30 * time.Second
)

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
