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
	// Resting is that at rest, and more, at most mostResting, where collections would take more than collecting of a core.
	Resting int
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
// hard; one that stayed below RestShare for restTicks is at rest. Collections are no
// work; the runtime counts some of what they take only when they end, so a second or two of them must not look like work.
const (
	tick      = time.Second
	busyTicks = 3
	restTicks = 5
)

// A large heap that is collected each minute takes more CPU than memory is worth. Go itself collects every two minutes, whatever the target.
const (
	mostResting = 100  // percent
	collecting  = 0.02 // of a core
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
		for was, used := collected(), cpuTime(); pause.For(ctx, tick); {
			is, now := collected(), cpuTime()
			work := (now - used).Seconds() - (is.cpu - was.cpu)
			was, used = is, now
			percent, changed, rests := p.next(work/tick.Seconds(), is)
			if changed {
				debug.SetGCPercent(percent)
			}
			if rests {
				debug.FreeOSMemory()
				was, used = collected(), cpuTime() // it was no work
			}
		}
	}
}

// collections is what the runtime says of them.
type collections struct {
	live   uint64  // bytes that the last one found in use
	cycles uint64  // all there have been
	cpu    float64 // seconds that all have taken
}

// pace is whether a process works hard, and its target for that.
type pace struct {
	growth      Growth
	busy        bool
	percent     int
	hard, quiet int // ticks above BusyShare, and below RestShare

	seen  bool        // that one ended at rest:
	last  collections // as they were then
	since int         // ticks since then
}

// begin returns the target of a process that has just started.
func (p *pace) begin() int {
	p.percent = p.growth.Busy(0)
	return p.percent
}

// next takes which share of a core the last tick took without collections, and what these have taken. It returns the target from now on, whether that is
// another one, and whether the process has come to rest.
func (p *pace) next(share float64, now collections) (percent int, changed, rests bool) {
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
		p.busy, p.percent, p.seen, rests = false, p.growth.Resting, false, true
	case p.busy || p.hard >= busyTicks:
		p.busy, p.percent = true, p.growth.Busy(now.live)
	default:
		p.rest(now)
	}
	return p.percent, p.percent != was, rests
}

// rest sets the target at rest by what the last collection took of the time since the one before it: twice the room is half the
// collections. The first at rest only begins the count, as it is that of coming to rest.
func (p *pace) rest(now collections) {
	p.since++
	if now.cycles == p.last.cycles {
		return
	}
	if p.seen {
		took := (now.cpu - p.last.cpu) / (float64(p.since) * tick.Seconds())
		p.percent = max(p.growth.Resting, min(mostResting, int(float64(p.percent)*took/collecting)))
	}
	p.seen, p.last, p.since = true, now, 0
}

// collected reads what the runtime says of collections.
func collected() (out collections) {
	read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}, {Name: "/cpu/classes/gc/total:cpu-seconds"}}
	metrics.Read(read)
	for i, into := range []*uint64{&out.live, &out.cycles} {
		if read[i].Value.Kind() == metrics.KindUint64 {
			*into = read[i].Value.Uint64()
		}
	}
	if read[2].Value.Kind() == metrics.KindFloat64 {
		out.cpu = read[2].Value.Float64()
	}
	return out
}

// cpuTime is the CPU time this process has used, user and system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
