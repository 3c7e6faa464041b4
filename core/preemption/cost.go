package preemption

import (
	"cmp"
	"math"
	"time"

	"berth.dev/berth/core/checkpoint"
)

// Cost is what evicting a set of holders costs. Costs are compared field by field,
// in order; the zero Cost is that of evicting no pod.
//
// The order is that of kube-scheduler, with GPU-time in the place of start times, and
// before it the gangs that end and the victims that do not save their work.
type Cost struct {
	// Highest is the highest priority among the victims, plus 2^31 + 1, so that
	// every victim counts; 0 is none.
	Highest int64
	// Sum is the sum of the victims' priorities, each plus 2^31, so that of two
	// sets of negative priority the larger is not the cheaper.
	Sum int64
	// Ends is the number of victims and of promises broken, times 2^40, plus the number of
	// gangs that end, all members being victims, times 2^20, plus the number of victims that
	// have run and do not save their work: two Costs of four words each are
	// passed in registers, and comparing them takes half the time.
	Ends int64
	Lost int64 // milli-GPU-seconds since the victims' start or checkpoint, that may have to be done again
}

const onePod, oneGang, oneUnsaved = 1 << 40, 1 << 20, 1 // of Cost.Ends

const lift = 1 << 31 // makes every priority at least 0

// Compare is negative where c is the cheaper, 0 where they are equal.
func (c Cost) Compare(d Cost) int {
	if c.Highest != d.Highest {
		return cmp.Compare(c.Highest, d.Highest)
	}
	return c.compareRest(d)
}

// compareRest is Compare without the first field. Searches spend much of their time in it.
func (c Cost) compareRest(d Cost) int {
	switch {
	case c.Sum != d.Sum:
		return cmp.Compare(c.Sum, d.Sum)
	case c.Ends != d.Ends:
		return cmp.Compare(c.Ends, d.Ends)
	}
	return cmp.Compare(c.Lost, d.Lost)
}

// never is more than any set of holders costs.
var never = Cost{Highest: math.MaxInt64}

// plus joins the costs of two sets of holders.
func (c Cost) plus(d Cost) Cost {
	return Cost{Highest: max(c.Highest, d.Highest), Sum: c.Sum + d.Sum, Ends: c.Ends + d.Ends, Lost: c.Lost + d.Lost}
}

// part is an n-th of c, rounded down: no more than each of n GPUs bears.
func (c Cost) part(n int) Cost {
	if n == 1 {
		return c
	}
	parts := int64(n)
	pods, gangs, unsaved := c.Ends/onePod, c.Ends%onePod/oneGang, c.Ends%oneGang
	return Cost{Highest: c.Highest, Sum: c.Sum / parts, Ends: pods/parts*onePod + gangs/parts*oneGang + unsaved/parts, Lost: c.Lost / parts}
}

// saved returns when each gang last saved its work, of those that say so: one member saves for all.
func (c *Cluster) saved() map[string]time.Time {
	var out map[string]time.Time
	for i := range c.Holders {
		for k := range c.Holders[i] {
			if h := &c.Holders[i][k]; h.Gang != "" && h.Saves.Last.After(out[h.Gang]) {
				if out == nil {
					out = map[string]time.Time{}
				}
				out[h.Gang] = h.Saves.Last
			}
		}
	}
	return out
}

// Losses says what the eviction of each of victims loses: see checkpoint.Saves.Sentence.
func (c *Cluster) Losses(victims []ID, now time.Time) []string {
	out, last := make([]string, len(victims)), c.saved()
	for i, id := range victims {
		h := &c.Holders[id.Node][id.Holder]
		out[i] = h.saves(last[h.Gang]).Sentence(h.Start, now, h.Placement.TotalMilli())
	}
	return out
}

// saves is how a holder saves its work whose gang did so last at a time; zero is not known.
func (h *Holder) saves(last time.Time) checkpoint.Saves {
	out := h.Saves
	if last.After(out.Last) {
		out.Last = last
	}
	return out
}

// costOf is the cost of evicting h, whose gang saved its work last at a time; zero is not known. Breaking a promise
// only counts.
func costOf(h *Holder, last, now time.Time) Cost {
	if h.Promise {
		return Cost{Ends: onePod}
	}
	c := Cost{Highest: int64(h.Priority) + lift + 1, Sum: int64(h.Priority) + lift, Ends: onePod}
	if h.Start.IsZero() {
		return c
	}
	saves := h.saves(last)
	if !saves.Any() {
		c.Ends += oneUnsaved
	}
	c.Lost = h.Placement.TotalMilli() * int64(saves.Lost(h.Start, now)/time.Second)
	return c
}
