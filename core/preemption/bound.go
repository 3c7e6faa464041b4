package preemption

import (
	"cmp"
	"slices"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
)

// verdict is what is known of a node.
type verdict uint8

const (
	possible verdict = iota
	noVictims
	tooSmall
	protected
	closed // Preemptor.Node or the request's class says no
)

// load is what the holders of one GPU who may go have of it.
type load struct {
	all     Cost   // of clearing it
	each    []Cost // of each of them
	milli   int32  // all together
	bytes   int64
	most    int32 // milli of the one with the most
	largest int64 // bytes of the one with the most
	one     int32 // milli of the one that is counted, so far
	oneSize int64
	blocked bool // another holds it who must not go
}

// candidate is one node as a search sees it.
type candidate struct {
	node  int
	r     *cluster.Request
	asks  cluster.Request // r as the node takes it
	who   []int           // holders who may go
	loads []load
	costs []Cost // scratch
	// allowed is that Preemptor.Allows is satisfied while all who may go are there, so
	// it need not be asked again.
	allowed bool
}

// look gathers who holds node i.
func (t *attempt) look(x *candidate, i int, r *cluster.Request) {
	x.node, x.r, x.asks, x.who = i, r, t.s.Resolve(i, r), x.who[:0]
	n := len(t.s.Cards(i))
	x.loads = slices.Grow(x.loads[:0], n)[:n]
	for j := range x.loads {
		x.loads[j] = load{each: x.loads[j].each[:0]}
	}
	for k := range t.c.Holders[i] {
		h, no := &t.c.Holders[i][k], t.first[i]+k
		if t.gone[no] {
			continue
		}
		goes := t.may[no] && t.within(h)
		if goes {
			x.who = append(x.who, no)
		}
		x.add(h, t.costs[no], goes)
	}
}

// add counts h on its GPUs, each with its part of the cost.
func (x *candidate) add(h *Holder, cost Cost, goes bool) {
	var seen [2]uint64 // a bit for each GPU
	distinct := 0
	for _, d := range h.Placement.Devices {
		if bit := uint64(1) << (d.GPU % 64); seen[d.GPU/64]&bit == 0 {
			seen[d.GPU/64] |= bit
			distinct++
		}
	}
	part := cost.part(max(1, distinct))
	for _, d := range h.Placement.Devices {
		l, bit := &x.loads[d.GPU], uint64(1)<<(d.GPU%64)
		if !goes {
			l.blocked = true
			continue
		}
		if seen[d.GPU/64]&bit != 0 {
			l.one, l.oneSize = 0, 0
		}
		l.one, l.oneSize = l.one+d.MilliGPU, l.oneSize+d.MemoryBytes
		l.milli, l.most = l.milli+d.MilliGPU, max(l.most, l.one)
		l.bytes, l.largest = l.bytes+d.MemoryBytes, max(l.largest, l.oneSize)
		if seen[d.GPU/64]&bit == 0 {
			continue // counted
		}
		seen[d.GPU/64] &^= bit
		l.all, l.each = l.all.plus(part), append(l.each, part)
	}
}

// bound returns a cost that no plan for r on node i is below, or says why there is
// none. A node that r fits as it is has the zero Cost.
func (t *attempt) bound(x *candidate, i int, r *cluster.Request) (Cost, verdict) {
	if t.p.Node != nil && !t.p.Node(i) {
		return Cost{}, closed
	}
	switch placement.Fit(t.s, i, r) {
	case placement.Fits:
		return Cost{}, possible
	case placement.Excluded:
		return Cost{}, closed
	case placement.WrongProduct:
		return Cost{}, tooSmall
	default: // it is full: evictions may help
	}
	t.look(x, i, r)
	if len(x.who) == 0 {
		if t.kept(i) {
			return Cost{}, protected
		}
		return Cost{}, noVictims
	}
	cpu, memory, cheapest := t.s.Node(i).FreeCPUMilli, t.s.Node(i).FreeMemoryBytes, never
	lowest := never.Highest
	for _, no := range x.who {
		q := &t.holder(no).Placement.Request
		cpu += q.CPUMilli
		memory += q.MemoryBytes
		lowest = min(lowest, t.costs[no].Highest)
		if c := t.costs[no]; cheapest == never || c.compareRest(cheapest) < 0 {
			cheapest = c
		}
	}
	if cpu < r.CPUMilli || memory < r.MemoryBytes {
		return Cost{}, tooSmall
	}
	cost, ok := t.boundGPUs(x)
	if !ok {
		return Cost{}, tooSmall
	}
	if cost == (Cost{}) { // what it lacks is no GPU, or more than one GPU tells
		cost = cheapest
		cost.Highest = lowest
	}
	return cost, possible
}

// kept reports whether a pod of lower priority is on node i that only a budget
// keeps.
func (t *attempt) kept(i int) bool {
	return slices.ContainsFunc(t.c.Holders[i], func(h Holder) bool {
		return h.Priority < t.p.Priority && !h.Fixed && !h.Leaving && !t.within(&h)
	})
}

// rest is c without its first field.
func (c Cost) rest() Cost {
	c.Highest = 0
	return c
}

// boundGPUs bounds the cost of enough GPUs with room, each for itself.
func (t *attempt) boundGPUs(x *candidate) (Cost, bool) {
	x.costs = x.costs[:0]
	need := int(x.asks.GPUs)
	for j := range x.loads {
		if c, ok := t.boundGPU(x, j); ok {
			x.costs = append(x.costs, c)
		}
	}
	if x.asks.IsMIG() || x.asks.Units {
		need = min(need, 1) // one GPU may give several
	}
	if len(x.costs) < need {
		return Cost{}, false
	}
	var sum Cost
	slices.SortFunc(x.costs, Cost.compareRest)
	for _, c := range x.costs[:need] {
		sum = sum.plus(c.rest())
	}
	if need > 0 {
		slices.SortFunc(x.costs, func(a, b Cost) int { return cmp.Compare(a.Highest, b.Highest) })
		sum.Highest = x.costs[need-1].Highest
	}
	return sum, true
}

// boundGPU bounds the cost of room for one of r's devices on GPU j, and says
// whether it can be had.
func (t *attempt) boundGPU(x *candidate, j int) (Cost, bool) {
	g, card, l, r := &t.s.GPUs(x.node)[j], &t.s.Cards(x.node)[j], &x.loads[j], &x.asks
	if !g.Healthy || !r.Products.Has(g.Product) {
		return Cost{}, false
	}
	if r.IsMIG() {
		p := t.s.ProfileNumber(g.Product, r.Profile)
		if p == 0 || t.s.Starts(x.node, j, p) == 0 && len(l.each) == 0 {
			return Cost{}, false
		}
		return Cost{}, true // the node as a whole bounds it: see bound
	}
	milli, bytes := r.MilliGPU, cluster.ShareBytes(r.MilliGPU, card.MemoryBytes)
	if r.GPUMemoryBytes > 0 {
		milli, bytes = cluster.ShareMilli(r.GPUMemoryBytes, card.MemoryBytes), r.GPUMemoryBytes
	}
	open := int32(t.s.Open(x.node)[j])
	switch whole := milli == cluster.Whole || g.MIG; {
	case bytes > card.MemoryBytes:
		return Cost{}, false
	case open >= milli && g.FreeBytes >= bytes:
		return Cost{}, true
	case g.MIG && card.Recut == cluster.RecutNever:
		return Cost{}, false
	case whole:
		return l.all, !l.blocked
	case g.FreeMilli+l.milli < milli || g.FreeBytes+l.bytes < bytes:
		return Cost{}, false
	}
	return l.cheapest(milli-g.FreeMilli, bytes-g.FreeBytes), true
}

// cheapest bounds the cost of freeing so much: that of the cheapest, as many as
// would be needed if all had as much as the one with the most.
func (l *load) cheapest(milli int32, bytes int64) Cost {
	n := 1
	if milli > 0 {
		n = max(n, int((milli+l.most-1)/l.most))
	}
	if bytes > 0 {
		n = max(n, int((bytes+l.largest-1)/l.largest))
	}
	slices.SortFunc(l.each, Cost.compareRest)
	var sum Cost
	for _, c := range l.each[:min(n, len(l.each))] {
		sum = sum.plus(c.rest())
	}
	sum.Highest = never.Highest
	for _, c := range l.each {
		sum.Highest = min(sum.Highest, c.Highest)
	}
	return sum
}
