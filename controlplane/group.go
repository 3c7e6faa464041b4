package controlplane

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"
)

// endPatience is how long parts that were told to stop may take. Upstream's end
// within a second or two; longer on a machine that is busy with other things.
const endPatience = time.Minute

// group is the parts of a control plane that run beside one another. They share a
// context, and the first part that ends by itself ends it: whatever waits for
// something under that context then learns why it does not come. Only what runs is
// waited for, and not forever.
type group struct {
	end context.CancelCauseFunc

	mu      sync.Mutex
	running []string // names of the parts that have not ended
	closing bool
	empty   func()        // closes none
	none    chan struct{} // closed when the group is closing and nothing runs
}

// endedError reports that a part stopped unexpectedly.
type endedError struct {
	part string
	why  error // nil where it did not say
}

// Error names the part and why it ended.
func (e *endedError) Error() string {
	if e.why == nil {
		return e.part + " exited without an error"
	}
	return e.part + " ended: " + e.why.Error()
}

// Unwrap is why it ended.
func (e *endedError) Unwrap() error { return e.why }

// newGroup makes a group and the context of its parts, which ends with parent.
func newGroup(parent context.Context) (context.Context, *group) {
	ctx, end := context.WithCancelCause(parent)
	none := make(chan struct{})
	return ctx, &group{end: end, none: none, empty: sync.OnceFunc(func() { close(none) })}
}

// start runs a part, under a label for profiles, until run returns. run must do so
// when ctx, which is the group's, ends. Returned before, it ends the group.
func (g *group) start(ctx context.Context, part, label string, run func(context.Context) error) {
	g.mu.Lock()
	g.running = append(g.running, part)
	g.mu.Unlock()
	go pprof.Do(ctx, pprof.Labels("component", label), func(ctx context.Context) {
		defer g.left(part)
		if err := run(ctx); ctx.Err() == nil {
			g.end(&endedError{part, err})
		}
	})
}

// left notes that a part has ended.
func (g *group) left(part string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.running, part)
	g.running = slices.Delete(g.running, i, i+1)
	if g.closing && len(g.running) == 0 {
		g.empty()
	}
}

// close ends all parts and waits for them, for patience at most. err is what the
// work with them has come to. Where a part has ended by itself the result is why,
// since whatever else went wrong then came of that; else it is err.
func (g *group) close(ctx context.Context, patience time.Duration, err error) error {
	if ended, ok := errors.AsType[*endedError](context.Cause(ctx)); ok {
		err = ended
	}
	g.end(nil)
	g.mu.Lock()
	g.closing = true
	if len(g.running) == 0 {
		g.empty()
	}
	g.mu.Unlock()
	select {
	case <-g.none:
		return err
	case <-time.After(patience):
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.running) == 0 {
		return err
	}
	return errors.Join(err, fmt.Errorf("%s did not stop within %v", strings.Join(g.running, ", "), patience))
}
