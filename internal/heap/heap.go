// Package heap adapts garbage collection to how hard a process works: at rest memory is worth more than the CPU of collections, of
// which there are few then. It is for programs alone, as the targets are those of the whole process.
package heap

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"syscall"
	"time"

	"berth.dev/berth/internal/pause"
)

// Growth says by how many percent of what is live a heap may grow before it is collected.
type Growth struct {
	Starting int // until Start's result is called
	Resting  int
	// Busy is that under hard work, for so many live bytes; 0 is that there was no collection yet.
	Busy func(live uint64) int
	// BusyShare is the share of a core that hard work takes, and RestShare that below which the process is at rest.
	BusyShare, RestShare float64
}

// Process is for a process that keeps what a cluster has and rarely works hard. Go's own target doubles the heap at all times, and a heap
// that grew under work is not released soon.
func Process() Growth {
	const busy = 50
	return Growth{Starting: busy, Resting: 15, Busy: func(uint64) int { return busy }, BusyShare: 0.3, RestShare: 0.15}
}

// A process that took more than BusyShare of a core in each of busyTicks works
// hard; one that stayed below RestShare for restTicks is at rest. One collection
// of a large heap must not look like work: it takes a second or two.
const (
	tick      = time.Second
	busyTicks = 3
	restTicks = 5
)

// Start sets the target for starting, and returns what to call when that is done: it follows the load until the context
// ends, and each time the process comes to rest releases what the work needed. A target that
// the environment sets, as GOGC, stays.
func (g Growth) Start() (follow func(ctx context.Context)) {
	if os.Getenv("GOGC") != "" {
		return func(ctx context.Context) { <-ctx.Done() }
	}
	debug.SetGCPercent(g.Starting)
	return func(ctx context.Context) {
		p := pace{growth: g, busy: true}
		debug.SetGCPercent(p.begin())
		for before := cpuTime(); pause.For(ctx, tick); {
			now := cpuTime()
			percent, changed, rests := p.next(float64(now-before)/float64(tick), live())
			before = now
			if changed {
				debug.SetGCPercent(percent)
			}
			if rests {
				debug.FreeOSMemory()
				before = cpuTime() // what collecting has used was no work
			}
		}
	}
}

// pace is whether a process works hard, and its target for that.
type pace struct {
	growth      Growth
	busy        bool
	percent     int
	hard, quiet int // ticks above BusyShare, and below RestShare
}

// begin returns the target of a process that has just started.
func (p *pace) begin() int {
	p.percent = p.growth.Busy(0)
	return p.percent
}

// next takes which share of a core the last tick took, and how many bytes are live. It returns the target from now on, whether that is
// another one, and whether the process has come to rest.
func (p *pace) next(share float64, live uint64) (percent int, changed, rests bool) {
	p.hard, p.quiet = p.hard+1, p.quiet+1
	if share <= p.growth.BusyShare {
		p.hard = 0
	}
	if share >= p.growth.RestShare {
		p.quiet = 0
	}
	was := p.percent
	switch {
	case p.busy && p.quiet >= restTicks:
		p.busy, p.percent, rests = false, p.growth.Resting, true
	case p.busy || p.hard >= busyTicks:
		p.busy, p.percent = true, p.growth.Busy(live)
	}
	return p.percent, p.percent != was, rests
}

// live is how many bytes the last collection found in use.
func live() uint64 {
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
