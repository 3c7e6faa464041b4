// Package pause waits between two attempts at something, for as long as the result is wanted.
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

// Shorter returns the shorter of two waits, of which 0 or less is none.
func Shorter(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}
