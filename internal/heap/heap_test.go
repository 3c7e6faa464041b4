package heap

import (
	"runtime"
	"slices"
	"testing"
)

func TestTheLiveHeapIsKnown(t *testing.T) {
	runtime.GC() // there may have been none yet
	if live() == 0 {
		t.Error("live() = 0: the runtime does not tell what the last collection found in use")
	}
}

func TestTargetsFollowTheLoad(t *testing.T) {
	g := Growth{Starting: 400, Resting: 25, Busy: func(live uint64) int { return 100 + int(live) }, BusyShare: 0.7, RestShare: 0.3}
	for _, c := range []struct {
		name   string
		shares []float64 // of a core, tick by tick
		live   uint64
		want   []int // percent
		rests  int   // how often
	}{
		{"a process that starts counts as busy", []float64{1, 0.5, 0.2}, 0, []int{100, 100, 100}, 0},
		{"five quiet ticks are rest", []float64{0.2, 0.2, 0.2, 0.2, 0.2, 0.2}, 0, []int{100, 100, 100, 100, 25, 25}, 1},
		{"a tick of work begins the count again", []float64{0.2, 0.2, 0.2, 0.2, 0.5, 0.2, 0.2, 0.2, 0.2, 0.2}, 0, []int{100, 100, 100, 100, 100, 100, 100, 100, 100, 25}, 1},
		{"a collection of two ticks does not count", []float64{0, 0, 0, 0, 0, 1, 1, 0, 0}, 0, []int{100, 100, 100, 100, 25, 25, 25, 25, 25}, 1},
		{"three ticks of work do, and rest comes again", []float64{0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0}, 0, []int{100, 100, 100, 100, 25, 25, 25, 100, 100, 100, 100, 100, 25}, 2},
		{"under work the target is that for what is live", []float64{1, 1}, 50, []int{150, 150}, 0},
	} {
		p, rests, got := pace{growth: g, busy: true}, 0, []int(nil)
		if first := p.begin(); first != 100 {
			t.Errorf("%s: begins with %d, want 100", c.name, first)
		}
		was := p.percent
		for _, share := range c.shares {
			percent, changed, rest := p.next(share, c.live)
			if changed != (percent != was) {
				t.Errorf("%s: changed = %v from %d to %d", c.name, changed, was, percent)
			}
			if was = percent; rest {
				rests++
			}
			got = append(got, percent)
		}
		if !slices.Equal(got, c.want) || rests != c.rests {
			t.Errorf("%s: %v and %d times at rest, want %v and %d", c.name, got, rests, c.want, c.rests)
		}
	}
}
