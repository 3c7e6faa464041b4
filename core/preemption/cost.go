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
	Sum   int64
	Count int   // victims, and promises broken
	Gangs int   // gangs that end, all members being victims
	Lost  int64 // milli-GPU-seconds since the victims' start or checkpoint, that may have to be done again
}

const lift = 1 << 31 // makes every priority at least 0

// Compare is negative where c is the cheaper, 0 where they are equal.
func (c Cost) Compare(d Cost) int {
	return cmp.Or(cmp.Compare(c.Highest, d.Highest), cmp.Compare(c.Sum, d.Sum), cmp.Compare(c.Count, d.Count), cmp.Compare(c.Gangs, d.Gangs), cmp.Compare(c.Lost, d.Lost))
}

// never is more than any set of holders costs.
var never = Cost{Highest: math.MaxInt64}

// plus joins the costs of two sets of holders.
func (c Cost) plus(d Cost) Cost {
	return Cost{Highest: max(c.Highest, d.Highest), Sum: c.Sum + d.Sum, Count: c.Count + d.Count, Gangs: c.Gangs + d.Gangs, Lost: c.Lost + d.Lost}
}

// part is an n-th of c, rounded down: no more than each of n GPUs bears.
func (c Cost) part(n int) Cost {
	return Cost{Highest: c.Highest, Sum: c.Sum / int64(n), Count: c.Count / n, Gangs: c.Gangs / n, Lost: c.Lost / int64(n)}
}

// costOf is the cost of evicting h. Breaking a promise only counts.
func costOf(h *Holder, now time.Time) Cost {
	if h.Promise {
		return Cost{Count: 1}
	}
	c := Cost{Highest: int64(h.Priority) + lift + 1, Sum: int64(h.Priority) + lift, Count: 1}
	if !h.Start.IsZero() {
		lost := max(0, now.Sub(h.Start))
		if h.Checkpoint > 0 {
			lost = min(lost, h.Checkpoint)
		}
		c.Lost = h.Placement.TotalMilli() * int64(lost/time.Second)
	}
	return c
}
