package test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"berth.dev/berth/test/machine"
)

// How many tests that start a control plane run at once. Fewer leave cores idle, as such tests mostly wait; too many
// ask about what has not come yet at each other's expense. So more than few begin only one by one, while the machine has CPU to spare.
const (
	few     = 3
	many    = 8
	spare   = 0.35            // of all cores
	settled = 5 * time.Second // how long a control plane takes to start, and over what the spare is measured
)

// gate lets tests begin. Other programs of the machine count as well: its idle time decides.
type gate struct {
	mu      sync.Mutex
	running int
	looks   []look // of the machine, oldest first, not older than settled by more than one
	last    time.Time
}

// look is the machine's CPU time at one moment.
type look struct {
	at    time.Time
	times machine.Times
}

var turns gate

// enter waits until one more test may begin, and returns what to call at its end.
func (g *gate) enter() (leave func()) {
	for {
		times, _ := machine.CPU() // none where it cannot be read: then few run
		if g.tries(time.Now(), times) {
			break
		}
		time.Sleep(time.Second / 2)
	}
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.running--
	})
}

// takeTurn is enter for a test.
func takeTurn(t *testing.T) {
	t.Helper()
	t.Cleanup(turns.enter())
}

// tries reports whether a test may begin now, and counts it then.
func (g *gate) tries(now time.Time, times machine.Times) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.looks = append(g.looks, look{now, times})
	for len(g.looks) > 2 && now.Sub(g.looks[1].at) >= settled {
		g.looks = slices.Delete(g.looks, 0, 1)
	}
	first := g.looks[0]
	part, known := times.Since(first.times).Idles()
	idles := now.Sub(first.at) >= settled && now.Sub(g.last) >= settled && known && part >= spare
	if g.running >= few && (g.running >= many || !idles) {
		return false
	}
	g.running++
	g.last = now
	return true
}

func TestMoreBeginWhileTheMachineIdles(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var times machine.Times
	g := &gate{}
	began := func(seconds int, idle float64) (n int) {
		for range 2 * seconds {
			now = now.Add(time.Second / 2)
			times.Idle, times.All = times.Idle+time.Duration(idle*float64(time.Second)), times.All+time.Second
			if g.tries(now, times) {
				n++
			}
		}
		return n
	}
	if n := began(1, 0); n != 2 {
		t.Errorf("%d of the first two begin on a busy machine", n)
	}
	if n := began(60, 0.2); n != 1 || g.running != few {
		t.Errorf("%d more begin on a busy machine, and %d run, want %d", n, g.running, few)
	}
	if n := began(11, 0.5); n != 2 {
		t.Errorf("%d more begin in 11 s on one that idles by half, want one after each 5 s", n)
	}
	if n := began(60, 0.1); n > 1 {
		t.Errorf("%d more begin when it is busy again, want at most the one for which it had idled", n)
	}
	if began(600, 0.9); g.running != many {
		t.Errorf("%d run on one that idles, want %d", g.running, many)
	}
	if n := began(30, 0); n != 0 {
		t.Errorf("%d begin beside as many as may", n)
	}
	g.running--
	if n := began(30, 0); n != 0 {
		t.Errorf("%d begin when one of many has ended on a busy machine", n)
	}
	if g.running = 1; began(1, 0) != 2 {
		t.Error("those that are few wait on a busy machine")
	}
	none := &gate{running: few}
	for range 100 {
		if now = now.Add(time.Second); none.tries(now, machine.Times{}) {
			t.Fatal("one more begins where it is not known whether the machine idles")
		}
	}
}
