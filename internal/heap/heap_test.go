package heap

import (
	"runtime"
	"slices"
	"testing"
)

func TestTheRuntimeTellsOfCollections(t *testing.T) {
	runtime.GC() // there may have been none yet
	if got := collected(); got.live == 0 || got.cycles == 0 || got.cpu == 0 {
		t.Errorf("collected() = %+v: the runtime does not tell what collections found in use, how many there were, or what they took", got)
	}
}

func TestCollectionsOfALargeHeapAreFewer(t *testing.T) {
	const live = 800 // MB
	for _, c := range []struct {
		name            string
		cost, allocates float64 // seconds of a collection, and MB a second
		want            int     // percent in the end
	}{
		{"collections that take 1 % of a core stay", 0.5, 4, 25},
		{"those that take 5 % come so seldom that they take 2", 2.5, 4, 62},
		{"a heap does not more than double", 10, 10, 100},
	} {
		p := pace{growth: Growth{Resting: 25, Busy: func(uint64) int { return 50 }, BusyShare: 2, RestShare: 1}, percent: 25}
		now, garbage := collections{cycles: 3, cpu: 7}, 0.0
		for range 2000 {
			if garbage += c.allocates; garbage >= live*float64(p.percent)/100 {
				garbage, now.cycles, now.cpu = 0, now.cycles+1, now.cpu+c.cost
			}
			p.next(0, now)
		}
		if p.percent < c.want-3 || p.percent > c.want+3 {
			t.Errorf("%s: %d %% in the end, want %d", c.name, p.percent, c.want)
		}
		if p.next(0, now); p.busy {
			t.Errorf("%s: it counts as busy", c.name)
		}
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
			percent, changed, rest := p.next(share, collections{live: c.live})
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
