package gang

import (
	"cmp"
	"fmt"
	"slices"

	"berth.dev/berth/core/queue"
)

func (e Seen) happen(s *step) {
	old := s.m.of[e.UID]
	g, m := s.see(&e.Pod)
	if e.Node != "" || m.stage == invalid { // also where others have bound it
		s.release(e.UID)
	}
	if old != nil && old != g {
		s.turn(old)
	}
	s.turn(g)
}

func (e Left) happen(s *step) {
	s.release(e.UID)
	Gone(e).happen(s)
}

func (e Gone) happen(s *step) {
	if g := s.m.of[e.UID]; g != nil {
		s.leave(g, e.UID)
		s.turn(g)
	}
}

func (e Sized) happen(s *step) {
	for _, g := range s.m.sorted() {
		if g.spec.Source != e.Source {
			continue
		}
		less := e.Unknown == "" && e.Least < g.spec.Least
		g.spec.Least, g.spec.Unknown = e.Least, e.Unknown
		if s.turn(g); less && g.refused != nil && g.plan == nil {
			s.wakeLeader(g) // what did not fit may do so with fewer members
		}
	}
}

// see takes a pod as it is now and returns its place in its gang.
func (s *step) see(p *Pod) (*state, *member) {
	if old := s.m.of[p.UID]; old != nil && old.spec.Key != p.Gang.Key {
		s.leave(old, p.UID)
	}
	g := s.m.gangs[p.Gang.Key]
	if g == nil {
		g = &state{members: map[string]*member{}, avoid: map[string][]string{}}
		s.m.gangs[p.Gang.Key] = g
		s.recall(g, p.Gang.Key)
	}
	if p.Invalid == "" || g.spec.Key == "" {
		g.spec = p.Gang
	}
	m := g.members[p.UID]
	if m == nil {
		m = &member{stage: stages}
		g.members[p.UID], s.m.of[p.UID] = m, g
	}
	m.pod, g.priority = *p, p.Priority
	switch {
	case p.Node != "":
		g.partial.ran = g.partial.ran || m.stage == stages // an earlier scheduler bound it
		s.move(g, m, bound)
	case p.Invalid != "":
		s.move(g, m, invalid)
	case m.stage != reserved && m.stage != kept:
		s.move(g, m, pending)
	}
	return g, m
}

// move brings a member to a stage.
func (s *step) move(g *state, m *member, to stage) {
	if m.stage == to {
		return
	}
	if m.stage < stages {
		g.count[m.stage]--
	}
	g.count[to]++
	g.unmeasure(m)
	if m.stage = to; to == invalid {
		m.place = place{}
	}
	if to == bound {
		m.held, m.place, g.rejected = false, place{}, nil
		s.unrank(m.pod.UID)
		g.fulfill(m.pod.UID)
	}
}

// leave takes a member out of its gang.
func (s *step) leave(g *state, uid string) {
	m := g.members[uid]
	g.count[m.stage]--
	g.unmeasure(m)
	delete(g.members, uid)
	delete(g.avoid, uid)
	delete(s.m.of, uid)
	s.unrank(uid)
	if g.leader == uid {
		g.leader, g.refused = "", nil
	}
	if len(g.members) == 0 {
		delete(s.m.gangs, g.spec.Key)
		s.out.Ended = append(s.out.Ended, g.spec.Key)
	}
	if m.stage == reserved || m.stage == kept || m.stage == bound {
		s.shrink(g)
	}
}

// sorted lists the gangs by key.
func (m *Machine) sorted() []*state {
	out := make([]*state, 0, len(m.gangs))
	for _, g := range m.gangs {
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b *state) int { return cmp.Compare(a.spec.Key, b.spec.Key) })
	return out
}

// ready is how many members have a place.
func (g *state) ready() int { return g.count[reserved] + g.count[kept] + g.count[bound] }

// least is how many members must have a place before any gets one, or why that is
// not known yet.
func (g *state) least() (int, string) {
	switch {
	case g.spec.Unknown != "":
		return 0, fmt.Sprintf("gang %s: %s", g.spec.Name, g.spec.Unknown)
	case g.spec.Least < 1 && g.spec.Source == nil:
		return 0, fmt.Sprintf("gang %s: none of its pods says how many it has", g.spec.Name)
	}
	return g.spec.Least, ""
}

// waiting lists the members without a place, by the second in which they were
// created and by name: they are placed together, and near one another by number.
func (g *state) waiting() []string {
	var out []*member
	for _, m := range g.members {
		if m.stage == pending {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *member) int {
		return cmp.Or(cmp.Compare(a.pod.Created.Unix(), b.pod.Created.Unix()), byName(a, b))
	})
	uids := make([]string, len(out))
	for i, m := range out {
		uids[i] = m.pod.UID
	}
	return uids
}

func byName(a, b *member) int { return cmp.Compare(a.pod.Name, b.pod.Name) }

// oldest is the age of the oldest member.
func (g *state) oldest() queue.Age {
	var out queue.Age
	for _, m := range g.members {
		if out.UID == "" || m.pod.Age.Compare(out) < 0 {
			out = m.pod.Age
		}
	}
	return out
}

// near lists the nodes of the members that have a place, except for one member.
func (g *state) near(except string) []string {
	var out []string
	for uid, m := range g.members {
		switch {
		case uid == except:
		case m.stage == bound:
			out = append(out, m.pod.Node)
		case (m.stage == kept || m.stage == reserved) && m.place.node != "": // it is on its way there
			out = append(out, m.place.node)
		}
	}
	slices.Sort(out)
	return out
}
