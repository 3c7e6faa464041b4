package controlplane

import (
	"context"
	"sync"
)

// group waits for what was started.
type group struct{ sync.WaitGroup }

// ended returns a callback for a component started now: it must be called once,
// when the component has ended.
func (g *group) ended(ctx context.Context, p *plane) func(name string, err error) {
	g.Add(1)
	return func(name string, err error) {
		defer g.Done()
		p.ended(ctx, name, err)
	}
}
