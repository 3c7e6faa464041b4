package preemption

import "slices"

// search finds the cheapest victims on one node, by branch and bound over the
// holders who may go: the dearest first, each is kept if the request would still
// fit with all after it gone, and let go if not, or where that turns out cheaper.
//
// That more victims never make a request fit worse is what it rests on.
type search struct {
	t         *attempt
	candidate *candidate
	floor     Cost // no plan costs less: one that costs as much ends the search
	best      Cost // of the victims found, or what they must cost less than
	found     bool
	picks     []int // found, without those that their gangs add
	now       []int // picked on the way to where the search is
	tries     int   // left
}

// search looks for victims on x's node that cost less than limit. Those it gives
// are to be picked in order. They are the cheapest, save where the search has
// come to its limit. fits is false if it would not fit even if all were gone.
func (t *attempt) search(x *candidate, floor, limit Cost) (s *search, fits bool) {
	t.look(x, x.node, x.r)
	s = &search{t: t, candidate: x, floor: floor, best: limit, tries: min(mostNodeTries, t.tries)}
	slices.SortFunc(x.who, func(a, b int) int {
		if c := s.dear(b).Compare(s.dear(a)); c != 0 {
			return c
		}
		if c := t.costs[b].Compare(t.costs[a]); c != 0 {
			return c
		}
		return b - a
	})
	m := t.s.Mark()
	defer t.s.RollBack(m)
	x.who = slices.DeleteFunc(x.who, func(n int) bool { return t.s.Release(&t.holder(n).Placement) != nil })
	x.allowed = t.allows(x.node)
	t.open = x
	defer func() { t.open = nil }()
	if !t.fits(x.node, x.r) {
		return s, false
	}
	s.down(0, Cost{})
	return s, true
}

// dear is by what a holder is kept before others: for a request of whole GPUs,
// what it costs to clear the cheapest of its GPUs, so that those are cleared
// whose holders cost least together; else what it costs itself.
func (s *search) dear(n int) Cost {
	devices := s.t.holder(n).Placement.Devices
	if !s.candidate.asks.IsWhole() || len(devices) == 0 {
		return s.t.costs[n]
	}
	least := never
	for _, d := range devices {
		if l := &s.candidate.loads[d.GPU]; !l.blocked && l.all.Compare(least) < 0 {
			least = l.all
		}
	}
	return least
}

// down decides about who[k:], where those before it that stay are assumed, and
// those that go cost cost.
func (s *search) down(k int, cost Cost) {
	t, x := s.t, s.candidate
	if s.found && s.best.Compare(s.floor) <= 0 {
		return
	}
	if k == len(x.who) {
		s.found, s.best, s.picks = true, cost, slices.Clone(s.now)
		return
	}
	n := x.who[k]
	if t.gone[n] { // with its gang
		s.down(k+1, cost)
		return
	}
	m := t.s.Mark()
	before := t.tries
	t.stays[n] = true
	fits := t.back(t.holder(n)) && t.fits(x.node, x.r)
	if s.tries -= max(1, before-t.tries); fits {
		s.down(k+1, cost)
	}
	t.stays[n] = false
	t.s.RollBack(m)
	if s.tries <= 0 && (s.found || s.tries <= -4*len(x.who)) {
		return // the limit: what is found first is taken, and a way that leads nowhere not gone to its end
	}
	mark := len(t.trail)
	more, ok := t.pick(n)
	ok = ok && !slices.ContainsFunc(t.trail[mark:], func(v int) bool { return t.stays[v] })
	if total := cost.plus(more); ok && total.Compare(s.best) < 0 {
		s.now = append(s.now, n)
		s.down(k+1, total)
		s.now = s.now[:len(s.now)-1]
	}
	t.unpick(mark)
}
