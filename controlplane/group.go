package controlplane

import (
	"context"
	"os"
	"runtime/debug"
	"sync"
	"syscall"
	"time"
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

// alive says whether a process exists.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && p.Signal(syscall.Signal(0)) == nil
}

// startTuning makes garbage collection rare while the control plane starts (it
// allocates much that it keeps), and returns what sets the lasting values for a
// fleet of so many nodes, to be called when it is ready. A small cluster on a
// laptop is worth more collections than memory; a large one works hard enough
// for the garbage to matter.
func startTuning() (lasting func(ctx context.Context, nodes int)) {
	debug.SetGCPercent(400)
	return func(ctx context.Context, nodes int) {
		percent := 50
		if nodes >= 200 {
			percent = 75
		}
		debug.SetGCPercent(percent)
		for _, wait := range settle {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
				debug.FreeOSMemory() // what only the start needed
			}
		}
	}
}

// settle is how long the start goes on after being ready: the first pods of a
// cluster come within the first span, and the controllers have seen a thousand
// nodes by the end of the second.
var settle = [...]time.Duration{5 * time.Second, 30 * time.Second}
