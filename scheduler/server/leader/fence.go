package leader

import (
	"context"
	"fmt"
	"time"
)

// settles is how long a new leader waits after the API server has refused the bindings of the one before, for those that it had
// admitted until then: it writes them some milliseconds later.
const settles = 200 * time.Millisecond

// Fenced returns when the API server knows that this process leads, and refuses bindings of the leader before that are still under way.
// knows asks it; an error is that it has not answered. After a minute Fenced gives up.
func Fenced(ctx context.Context, knows func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, giveUp, fmt.Errorf("for %s it has refused the bindings of this scheduler, as of one that does not lead", giveUp))
	defer cancel()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		known, err := knows(ctx)
		wait := look.C
		if known {
			wait = time.After(settles)
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = context.Cause(ctx)
			}
			return fmt.Errorf("ask the API server who leads: %w", err)
		case <-wait:
		}
		if known {
			return nil
		}
	}
}
