package controlplane

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"syscall"
	"time"

	"berth.dev/berth/internal/pause"
)

// The garbage collector's growth targets in percent. Starting allocates much
// that is kept; a cluster at rest is worth more collections than memory; one
// that works hard is not, but its heap grows to busyHeap at most, or to twice of
// what is live: what a burst of work leaves behind are pages with holes, as many as
// the heap was large, and they are not released.
const (
	startingGC = 400
	mostBusyGC = 200
	restingGC  = 25
	busyHeap   = 800 << 20 // bytes
)

// busyGC is the growth target for a heap of so many live bytes under hard work.
func busyGC(live uint64) int {
	if live == 0 {
		return mostBusyGC
	}
	return int(min(max(100, 100*(busyHeap-min(busyHeap, live))/live), mostBusyGC))
}

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
// ends, and each time the process comes to rest releases what the work needed. A target that
// the environment sets, as GOGC, stays.
func startTuning() (followLoad func(ctx context.Context)) {
	if os.Getenv("GOGC") != "" {
		return func(ctx context.Context) { <-ctx.Done() }
	}
	debug.SetGCPercent(startingGC)
	return func(ctx context.Context) {
		percent := mostBusyGC
		debug.SetGCPercent(percent)
		busy, hard, quiet := true, 0, 0 // ticks above busyShare, and below restShare
		for before := cpuTime(); pause.For(ctx, tuneTick); {
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
			if want := busyGC(liveHeap()); busy && want != percent {
				percent = want
				debug.SetGCPercent(percent)
			}
			switch {
			case !busy && hard >= busyTicks:
				busy, percent = true, busyGC(liveHeap())
				debug.SetGCPercent(percent)
			case busy && quiet >= restTicks:
				busy = false
				debug.SetGCPercent(restingGC)
				debug.FreeOSMemory()
				before = cpuTime() // what collecting has used was no work
			}
		}
	}
}

// liveHeap is how many bytes the last collection found in use.
func liveHeap() uint64 {
	read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(read)
	if read[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return read[0].Value.Uint64()
}

// cpuTime is the CPU time this process has used, user and system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
