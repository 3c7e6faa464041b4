package state

import (
	"context"
	"time"
)

// openBindings is how many bindings are on their way at once. An API server
// takes a hundred requests on one connection (Go's http2.Server, unless told
// otherwise); more than that, and every further request dials a connection of
// its own. In a backlog of 4,000 pods the handshakes took a third of the
// scheduler's CPU.
const openBindings = 32

// gateWait bounds how long a decision waits for earlier bindings.
const gateWait = 200 * time.Millisecond

// gate lets so many bindings through at once, first come first served. A
// decision that waits for it too is made when it can be carried out: meanwhile
// a more urgent pod may come and be decided first.
type gate chan struct{}

func newGate() gate { return make(gate, openBindings) }

// Enter waits for its turn; it is an error when ctx ends first. Whoever has
// entered must leave.
func (g gate) Enter(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Leave lets the next one in.
func (g gate) Leave() { <-g }

// Wait returns when a binding would be let through, after gateWait at the
// latest.
func (g gate) Wait(ctx context.Context) {
	select {
	case g <- struct{}{}:
		<-g
		return
	default:
	}
	ctx, stop := context.WithTimeout(ctx, gateWait)
	defer stop()
	if g.Enter(ctx) == nil {
		g.Leave()
	}
}
