package gang

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth.dev/berth/core/queue"
)

// turn looks at what has become of g: a plan that can no longer be fulfilled is
// given up; members that can go on are to be woken, once for each change.
func (s *step) turn(g *state) {
	least, why := g.least()
	if why == "" && g.plan != nil {
		here := g.ready()
		for _, uid := range slices.Sorted(maps.Keys(g.plan.nodes)) {
			switch m := g.members[uid]; {
			case m == nil:
				g.fulfill(uid)
				s.release(uid)
			case m.stage == pending:
				here++
			}
		}
		if g.plan != nil && !g.plan.passed && here < least {
			s.giveUp(g, missingText(g, here, least))
		}
	}
	ready := g.ready()
	s.lacks(g)
	whole := why == "" && g.plan == nil && !g.partial.leaving && g.count[pending] > 0 && ready+g.count[pending] >= least
	runs := why == "" && ready >= least
	if !runs {
		s.need(g)
	}
	switch {
	case runs && !g.runs:
		for _, uid := range g.waiting() {
			if !g.planned(uid) {
				s.wake(uid)
			}
		}
	case whole && !runs && (!g.whole || !g.led() || g.runs):
		s.plan(g)
	}
	g.whole, g.runs, s.out.Changed = whole, runs, true
}

// missingText says that members are missing.
func missingText(g *state, here, least int) string {
	more := "1 more pod"
	if n := least - here; n != 1 {
		more = fmt.Sprintf("%d more pods", n)
	}
	return fmt.Sprintf("waiting for %s of gang %s (%d of %d exist)", more, g.spec.Name, here, least)
}

// led reports whether there is a leader who can plan.
func (g *state) led() bool {
	l := g.members[g.leader]
	return l != nil && l.stage == pending
}

// lead returns the member to wake for a plan, and makes one the leader where there
// is none.
func (g *state) lead() []string {
	if g.led() {
		return []string{g.leader}
	}
	if uids := g.waiting(); len(uids) > 0 {
		g.leader = uids[0]
		return uids[:1]
	}
	return nil
}

// planned reports whether the plan has a place for a member.
func (g *state) planned(uid string) bool { return g.plan != nil && g.plan.nodes[uid] != "" }

// fulfill takes a member that needs no place any longer out of the plan.
func (g *state) fulfill(uid string) {
	if g.plan == nil {
		return
	}
	delete(g.plan.nodes, uid)
	if len(g.plan.nodes) == 0 {
		g.plan = nil
	}
}

// giveUp drops a plan that has not passed. What it held may do for other gangs.
func (s *step) giveUp(g *state, reason string) {
	for _, uid := range slices.Sorted(maps.Keys(g.plan.nodes)) {
		if m := g.members[uid]; m != nil && m.stage == reserved {
			s.out.Return = append(s.out.Return, Return{uid, reason})
		} else {
			s.release(uid)
		}
	}
	g.plan = nil
	s.wakeRefused(g)
}

// wakeRefused wakes the leaders of gangs that did not fit, except for one gang.
func (s *step) wakeRefused(except *state) {
	for _, g := range s.m.sorted() {
		if g != except && g.refused != nil && g.plan == nil {
			s.wakeIn(g, leastPause)
		}
	}
}

func (Unkept) happen(s *step) {
	for _, g := range s.m.sorted() {
		if g.refused != nil && g.plan == nil {
			s.wakeLeader(g) // with the pods of no gang, which are called too, so priority decides
		}
	}
}

// plan wakes the leader of g, which plans.
func (s *step) plan(g *state) {
	if s.wake(g.lead()...); s.last == nil || s.last.before(g) {
		s.last = g
	}
}

// ahead wakes with those that plan the gangs before them that may fit as well: those that only pause, and those that are being
// planned on what there was before. Their turns decide who gets what came free, and not whose pause ends first.
func (s *step) ahead() {
	if s.last == nil {
		return
	}
	var first []*state
	for _, h := range s.m.gangs {
		if h.plan == nil && (h.due && s.now.Before(h.retry) || h.tries) && h.before(s.last) {
			first = append(first, h)
		}
	}
	slices.SortFunc(first, func(a, b *state) int { return cmp.Compare(a.spec.Key, b.spec.Key) })
	for _, h := range first {
		h.retry = time.Time{}
		s.wake(h.lead()...)
	}
}

// before reports whether the turn of g comes before that of another gang.
func (g *state) before(other *state) bool {
	if g.priority != other.priority {
		return g.priority > other.priority
	}
	return g.age().Compare(other.age()) < 0
}

// age is that of the oldest member, as of when the gang was first complete, if it was.
func (g *state) age() queue.Age {
	if g.since.UID == "" {
		return g.oldest()
	}
	return g.since
}
