package gang

import (
	"fmt"
	"maps"
	"slices"
)

func (e Arrived) happen(s *step) {
	g := s.m.of[e.UID]
	if g == nil {
		return
	}
	m := g.members[e.UID]
	least, why := g.least()
	if !g.planned(e.UID) {
		if m.stage == kept || why == "" && g.ready() >= least {
			extra := m.stage == pending
			if s.move(g, m, reserved); extra && g.spec.Within < Cluster {
				s.wake(g.lead()...) // the next one is planned near the others, and no event calls it
			}
			return
		}
		s.refuse(fmt.Sprintf("the plan of gang %s was given up", g.spec.Name))
		return
	}
	s.move(g, m, reserved)
	if g.plan.passed || why != "" || g.ready() < least {
		if s.out.Answer.Wait = !g.plan.passed; g.plan.passed {
			g.sent(e.UID)
		}
		return
	}
	g.plan.passed, g.refused, g.rounds, g.avoid = true, nil, 0, map[string][]string{}
	for _, uid := range slices.Sorted(maps.Keys(g.plan.nodes)) {
		if o := g.members[uid]; uid != e.UID && o != nil && o.stage == reserved {
			g.sent(uid)
			s.out.Permit = append(s.out.Permit, uid)
		}
	}
	g.sent(e.UID)
	s.turn(g)
}

// sent notes where a member is sent that may go on.
func (g *state) sent(uid string) { g.members[uid].place.node = g.plan.nodes[uid] }

func (e Unreserved) happen(s *step) {
	g := s.m.of[e.UID]
	if g == nil || g.members[e.UID].stage == bound {
		return
	}
	m := g.members[e.UID]
	switch {
	case g.planned(e.UID) && !g.plan.passed: // the others go back
		s.move(g, m, pending)
		delete(g.plan.nodes, e.UID)
		s.giveUp(g, fmt.Sprintf("gang %s waits: pod %s did not get its place", g.spec.Name, m.pod.Name))
		g.rounds++
		s.again(g, pause(g.rounds))
	case g.lasts(m, s.now):
		s.keep(g, m)
	case m.place.node != "" && g.count[bound] == 0:
		g.fulfill(e.UID)
		s.loseAll(g, m)
	case m.place.node != "":
		g.fulfill(e.UID)
		s.lose(g, m)
		g.rounds++
		s.again(g, pause(g.rounds))
	default:
		s.move(g, m, pending)
		g.fulfill(e.UID)
		s.release(e.UID)
	}
	s.turn(g)
}
