package gang

// A gang may have more members than it needs. Those beyond its minimum are placed,
// and make room, one by one like pods of no gang. Gangs of equal priority share
// what is over their minimums: members are numbered from the minimum on, and of
// two that wait the one with less before it in its gang goes first.

// measure numbers a member that waits as one more of a gang that runs.
func (g *state) measure(m *member) {
	least, why := g.least()
	if more := g.ready() - least; why == "" && m.over == 0 && m.stage == pending && !g.planned(m.pod.UID) && more >= 0 {
		g.over++
		m.over = more + g.over
	}
}

// unmeasure takes the number away from a member that does not wait any longer.
func (g *state) unmeasure(m *member) {
	if m.over > 0 {
		m.over = 0
		g.over--
	}
}

// shrink moves up those who wait as one more, as the gang has lost a member that
// had a place.
func (s *step) shrink(g *state) {
	if g.over == 0 {
		return
	}
	for _, uid := range g.waiting() {
		if m := g.members[uid]; m.over > 1 {
			m.over--
			s.rank(g, m)
		}
	}
}

// need has those who wait as one more be planned with the rest, as the gang does not
// run any longer.
func (s *step) need(g *state) {
	if g.over == 0 {
		return
	}
	for _, uid := range g.waiting() {
		if m := g.members[uid]; m.over > 0 {
			g.unmeasure(m)
			s.rank(g, m)
			s.out.Leave = append(s.out.Leave, uid)
		}
	}
}

// shares reports whether another gang of the same priority has members without a
// place that could go: then g gets its minimum before either gets more.
func (m *Machine) shares(g *state) bool {
	for _, other := range m.gangs {
		least, why := other.least()
		if other != g && why == "" && other.priority == g.priority && other.count[pending] > 0 && other.ready()+other.count[pending] >= least {
			return true
		}
	}
	return false
}
