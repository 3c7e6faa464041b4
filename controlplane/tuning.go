package controlplane

import (
	"context"
	"runtime/debug"
	"syscall"
	"time"
)

// The garbage collector's growth targets in percent. Starting allocates much
// that is kept; a cluster at rest is worth more collections than memory; one
// that works hard is not.
const (
	startingGC = 400
	busyGC     = 200
	restingGC  = 50
)

// A process that took more than busyShare of a core in each of busyTicks works
// hard; one that stayed below restShare for restTicks is at rest. One collection
// of a large heap must not look like work: it takes a second or two.
const (
	tuneTick  = time.Second
	busyShare = 0.7
	busyTicks = 3
	restShare = 0.3
	restTicks = 5
)

// startTuning makes garbage collection rare while the control plane starts, and
// returns what to call when it is ready: it follows the load until the context
// ends, and each time the process comes to rest gives back what the work needed.
func startTuning() (followLoad func(ctx context.Context)) {
	debug.SetGCPercent(startingGC)
	return func(ctx context.Context) {
		debug.SetGCPercent(busyGC)
		busy, hard, quiet := true, 0, 0 // ticks above busyShare, and below restShare
		for before := cpuTime(); sleep(ctx, tuneTick); {
			now := cpuTime()
			share := float64(now-before) / float64(tuneTick)
			before = now
			hard, quiet = hard+1, quiet+1
			if share <= busyShare {
				hard = 0
			}
			if share >= restShare {
				quiet = 0
			}
			switch {
			case !busy && hard >= busyTicks:
				busy = true
				debug.SetGCPercent(busyGC)
			case busy && quiet >= restTicks:
				busy = false
				debug.SetGCPercent(restingGC)
				debug.FreeOSMemory()
				before = cpuTime() // what collecting has used was no work
			}
		}
	}
}

// sleep waits, and is false when the context ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// cpuTime is the CPU time this process has used, user and system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
