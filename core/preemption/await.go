package preemption

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// unknownEnd is more seconds than any declared end is away.
const unknownEnd = 1 << 40

// Priorities of what is kept for others, and of those who evict no pods.
const (
	// Yielding is the priority of a promise that goes for any preemptor, because that comes
	// before the pod that it is for.
	Yielding = math.MinInt32
	// Peaceful is the priority of a preemptor that evicts no pods: of all holders only
	// Yielding promises go for it. Pods of priority Yielding must be Fixed then.
	Peaceful = math.MinInt32 + 1
)

// AwaitAgain returns after how long a place that Await has found is looked for again on so many nodes, in case one that it waits for has ended
// without a word: a second up to 100 nodes, and ten from 1,000 on, where a search takes tens of milliseconds.
func AwaitAgain(nodes int) time.Duration {
	return min(max(time.Second, time.Duration(nodes)*10*time.Millisecond), 10*time.Second)
}

// Await looks for the place for p that comes free soonest without evictions: where
// those who hold what p needs end first. Plan.Awaited are those whose end is waited
// for; no plan has Victims, and promises stay as they are.
//
// Declared ends (Holder.Ends) come first, the last of those that are waited for
// deciding. Unknown ends come after them: those who have run for the shortest time are
// taken to end first, in steps of twice the time, and then it is where the least is
// still held that comes first. Declared ends that have passed count as unknown.
//
// The ends of those that are Awaited already come before all others: so a place is the same
// when it is looked for again, and what has come free of it stays with it, even if
// others end sooner.
//
// Equal arguments give equal plans.
func Await(c *Cluster, p *Preemptor, now time.Time) (Plan, Refusal, bool) {
	waits := &Cluster{Snapshot: c.Snapshot, Holders: make([][]Holder, len(c.Holders))}
	for i := range c.Holders {
		waits.Holders[i] = slices.Clone(c.Holders[i])
		for k := range waits.Holders[i] {
			h := &waits.Holders[i][k]
			h.Fixed = h.Gang != "" && h.Gang == p.Gang // its own gang does not end for it
			h.Gang, h.Budgets, h.Priority = "", nil, math.MinInt32
			if h.Promise {
				h.Priority = math.MaxInt32
			}
		}
	}
	q := *p
	q.Priority, q.Gang = math.MaxInt32, ""
	plan, why, ok := findBy(waits, &q, func(h *Holder) Cost { return endOf(h, now) })
	if !ok {
		return Plan{}, why, false
	}
	plan.Awaited = slices.SortedFunc(slices.Values(slices.Concat(plan.Awaited, plan.Victims)), ID.Compare)
	plan.Victims = nil
	return plan, Refusal{}, true
}

// endOf is the time to the end of a holder, in the form of a Cost.
func endOf(h *Holder, now time.Time) Cost {
	c := Cost{Highest: unknownEnd, Sum: h.Placement.TotalMilli(), Ends: onePod}
	switch {
	case h.Awaited:
		c.Highest = 0
	case h.Ends.After(now):
		c.Highest = min(unknownEnd-1, 1+int64(h.Ends.Sub(now)/time.Second))
	case !h.Start.IsZero():
		c.Highest += int64(bits.Len64(uint64(max(0, now.Sub(h.Start)) / time.Second)))
	}
	return c
}
