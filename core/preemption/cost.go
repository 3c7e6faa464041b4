package preemption

import (
	"cmp"
	"math"
	"time"
)

// Cost is what evicting a set of holders costs. Costs are compared field by field,
// in order; the zero Cost is that of evicting no pod.
//
// The order is that of kube-scheduler, with GPU-time in the place of start times, and
// before it the gangs that end.
type Cost struct {
	// Highest is the highest priority among the victims, plus 2^31 + 1, so that
	// every victim counts; 0 is none.
	Highest int64
	// Sum is the sum of the victims' priorities, each plus 2^31, so that of two
	// sets of negative priority the larger is not the cheaper.
	Sum int64
	// Ends is the number of victims and of promises broken, times 2^32, plus the number of
	// gangs that end, all members being victims: two Costs of four words each are
	// passed in registers, and comparing them takes half the time.
	Ends int64
	Lost int64 // milli-GPU-seconds since the victims' start or checkpoint, that may have to be done again
}

const onePod, oneGang = 1 << 32, 1 // of Cost.Ends

const lift = 1 << 31 // makes every priority at least 0

// Compare is negative where c is the cheaper, 0 where they are equal.
func (c Cost) Compare(d Cost) int {
	return cmp.Or(cmp.Compare(c.Highest, d.Highest), cmp.Compare(c.Sum, d.Sum), cmp.Compare(c.Ends, d.Ends), cmp.Compare(c.Lost, d.Lost))
}

// never is more than any set of holders costs.
var never = Cost{Highest: math.MaxInt64}

// plus joins the costs of two sets of holders.
func (c Cost) plus(d Cost) Cost {
	return Cost{Highest: max(c.Highest, d.Highest), Sum: c.Sum + d.Sum, Ends: c.Ends + d.Ends, Lost: c.Lost + d.Lost}
}

// part is an n-th of c, rounded down: no more than each of n GPUs bears.
func (c Cost) part(n int) Cost {
	parts := int64(n)
	pods, gangs := c.Ends/onePod, c.Ends%onePod
	return Cost{Highest: c.Highest, Sum: c.Sum / parts, Ends: pods/parts*onePod + gangs/parts, Lost: c.Lost / parts}
}

// costOf is the cost of evicting h. Breaking a promise only counts.
func costOf(h *Holder, now time.Time) Cost {
	if h.Promise {
		return Cost{Ends: onePod}
	}
	c := Cost{Highest: int64(h.Priority) + lift + 1, Sum: int64(h.Priority) + lift, Ends: onePod}
	if !h.Start.IsZero() {
		lost := max(0, now.Sub(h.Start))
		if h.Checkpoint > 0 {
			lost = min(lost, h.Checkpoint)
		}
		c.Lost = h.Placement.TotalMilli() * int64(lost/time.Second)
	}
	return c
}
