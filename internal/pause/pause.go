// Package pause waits between two tries of something, for as long as it is wanted.
package pause

import (
	"context"
	"time"
)

// For waits d, or until ctx ends: then it gives false. A d of 0 or less does not
// wait.
func For(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
