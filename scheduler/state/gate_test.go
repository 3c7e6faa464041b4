package state

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
)

// TestGateLetsSoManyThrough sends ten times as many as may pass at once.
func TestGateLetsSoManyThrough(t *testing.T) {
	g := newGate()
	var now, most atomic.Int64
	var all sync.WaitGroup
	for range 10 * openBindings {
		all.Go(func() {
			if err := g.Enter(t.Context()); err != nil {
				t.Error(err)
				return
			}
			defer g.Leave()
			for n := now.Add(1); ; {
				was := most.Load()
				if n <= was || most.CompareAndSwap(was, n) {
					break
				}
			}
			now.Add(-1)
		})
	}
	all.Wait()
	if most.Load() > openBindings || now.Load() != 0 || len(g) != 0 {
		t.Errorf("%d at once, want %d at most; %d left inside", most.Load(), openBindings, len(g))
	}
}

func TestAFullGateDoesNotHoldADecisionForEver(t *testing.T) {
	g := newGate()
	g.Wait(t.Context()) // open
	for range openBindings {
		if err := g.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	g.Wait(t.Context()) // returns all the same
	ended, end := context.WithCancel(t.Context())
	end()
	if err := g.Enter(ended); err == nil {
		t.Error("let through although the gate is full")
	}
	g.Leave()
	if err := g.Enter(t.Context()); err != nil {
		t.Errorf("one has left: %v", err)
	}
}
