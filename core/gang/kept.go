package gang

import (
	"slices"
	"time"
)

// The bindings of a gang are sent in the same moment, and the API server may
// refuse one of them: then the others run, and wait for it. Its place is kept, so
// it can follow them whatever else comes, and it is sent again and again.
const (
	keepFor     = time.Minute            // since the first refusal; a pod that is always refused must not starve others
	firstResend = 100 * time.Millisecond // until the binding is sent again; then twice as long each time
	lastResend  = 5 * time.Second        // at most
	sameNode    = 3                      // refusals on a node until another one is looked for
)

// place is where a member of a gang that runs was sent, and how the API server
// answered.
type place struct {
	node    string    // "" is nowhere: the member has not been sent, or has lost its place
	since   time.Time // when it was first refused; zero is never. Only a binding makes it forget
	times   int       // refusals since then
	here    int       // of them in a row on node
	refused bool      // the last time the API server said no, rather than nothing
	left    []string  // nodes that it was refused on before
	resend  time.Time // when it is woken to be sent again; zero is never
}

// lasts reports whether the place is still kept when a binding comes to nothing.
func (p *place) lasts(now time.Time) bool {
	return p.node != "" && (p.since.IsZero() || now.Sub(p.since) < keepFor)
}

// Keeps reports whether what is held for a member is kept when its binding comes
// to nothing, and the gang that then runs without it. Until Unreserved the answer
// stays the same.
func (m *Machine) Keeps(uid string, now time.Time) (gang string, keeps bool) {
	g := m.of[uid]
	if g == nil {
		return "", false
	}
	k := g.members[uid]
	return g.spec.Name, k.stage == kept || k.stage == reserved && k.place.lasts(now)
}

func (e Answered) happen(s *step) {
	if _, keeps := s.m.Keeps(e.UID, s.now); keeps {
		s.m.of[e.UID].members[e.UID].place.refused = e.Refused
	}
}

// keep has m wait in its place, and wakes it after a while.
func (s *step) keep(g *state, m *member) {
	p := &m.place
	if p.since.IsZero() {
		p.since = s.now
	}
	p.times++
	if p.here++; !p.refused {
		p.here = 0 // it may have arrived there
	}
	g.fulfill(m.pod.UID)
	s.move(g, m, kept)
	s.rank(g, m)
	p.resend = s.now.Add(min(lastResend, firstResend<<min(p.times-1, 10)))
	s.m.alarm(alarm{at: p.resend, gang: g, member: m.pod.UID})
}

// lose takes the place of m away; it is to be planned again.
func (s *step) lose(g *state, m *member) {
	s.move(g, m, pending)
	m.place.node, m.place.here = "", 0
	s.release(m.pod.UID)
}

// Kept returns the node that is kept for a member, "" where none is. With it comes
// what is to be planned where the member was refused there too often.
func (m *Machine) Kept(uid string) (node string, away *Task) {
	g := m.of[uid]
	if g == nil || g.members[uid].stage != kept {
		return "", nil
	}
	p := &g.members[uid].place
	if p.here >= sameNode {
		away = &Task{
			Gang: g.spec, Members: []string{uid}, Need: 1, Near: g.near(uid), Extra: true,
			Avoid: map[string][]string{uid: append(slices.Clone(p.left), p.node)},
		}
	}
	return p.node, away
}

func (e Moved) happen(s *step) {
	if g := s.m.of[e.UID]; g != nil && g.members[e.UID].stage == kept {
		p := &g.members[e.UID].place
		p.left, p.node, p.here = append(p.left, p.node), e.Node, 0
	}
}
