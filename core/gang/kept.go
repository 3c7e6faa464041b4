package gang

import (
	"maps"
	"slices"
	"time"
)

// Before the first binding of a gang is written, the API server is asked whether it
// would accept them: see Machine.Unbound. If it rejects one, the places of all are
// kept for a while, and all are sent again.
//
// Then the bindings are sent in the same moment, and the API server may still reject
// one of them: then the others run, and wait for it. Its place is kept, so it can
// follow them whatever else comes, as long as the gang has too few members without it.
const (
	keepFor      = time.Minute             // since the first refusal, of one more member of a gang that runs
	keepWholeFor = 10 * time.Second        // of a gang of which no member is bound
	firstResend  = 100 * time.Millisecond  // until the binding is sent again; then twice as long each time
	lastResend   = 1500 * time.Millisecond // at most
	sameNode     = 3                       // refusals on a node until another one is looked for
)

// rejection is what the API server rejects of a gang of which no member is bound.
type rejection struct {
	name, node string // of the member
	reason     string
}

// place is where a member of a gang that runs was sent, and how the API server
// answered.
type place struct {
	node    string    // "" is nowhere: the member has not been sent, or has lost its place
	since   time.Time // when it was first refused; zero is never. Only a binding makes it forget
	times   int       // refusals since then
	here    int       // of them in a row on node
	refused bool      // the last time the API server said no, rather than nothing
	reason  string    // why it did
	left    []string  // nodes that it was refused on before
	resend  time.Time // when it is woken to be sent again; zero is never
}

// lasts reports whether the place of m is still kept when a binding comes to nothing.
func (g *state) lasts(m *member, now time.Time) bool {
	p := &m.place
	switch least, why := g.least(); {
	case p.node == "":
		return false
	case p.since.IsZero(), why == "" && g.count[bound] > 0 && g.count[bound] < least:
		return true
	case g.first() != nil && g.first() != m: // it goes as soon as that one is bound
		return true
	case g.count[bound] == 0:
		return now.Sub(p.since) < keepWholeFor
	}
	return now.Sub(p.since) < keepFor
}

// Sent is a member on its way to a node.
type Sent struct{ UID, Node string }

// Unbound lists the members of a gang that have a place, by name, while none is bound:
// before the first is, the API server is to be asked about them. It is nil where one is
// bound, and for a gang of one. alone is that too few have a place, as others have lost
// theirs: then none may be bound.
func (m *Machine) Unbound(uid string) (sent []Sent, alone bool) {
	g := m.of[uid]
	if g == nil || g.count[bound] > 0 {
		return nil, false
	}
	var list []*member
	for _, k := range g.members {
		if (k.stage == reserved || k.stage == kept) && k.place.node != "" {
			list = append(list, k)
		}
	}
	if least, why := g.least(); why == "" && len(list) < least {
		return nil, true
	}
	if len(list) < 2 {
		return nil, false
	}
	slices.SortFunc(list, byName)
	for _, k := range list {
		sent = append(sent, Sent{k.pod.UID, k.place.node})
	}
	return sent, false
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
	return g.spec.Name, k.stage == kept || k.stage == reserved && g.lasts(k, now)
}

func (e Answered) happen(s *step) {
	g := s.m.of[e.UID]
	if g == nil {
		return
	}
	m := g.members[e.UID]
	if m.place.refused = e.Refused; e.Refused {
		m.place.reason = e.Reason
	}
	if e.Refused && g.count[bound] == 0 && m.place.node != "" {
		g.rejected = &rejection{m.pod.Name, m.place.node, e.Reason}
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

// loseAll takes the places of m and of all its gang away, of which no member is bound.
// It is planned again without the nodes where the API server rejects members.
func (s *step) loseAll(g *state, m *member) {
	all := slices.Sorted(maps.Keys(g.members))
	for _, uid := range all {
		p := &g.members[uid].place
		if p.refused && p.node != "" && !slices.Contains(g.avoid[uid], p.node) {
			g.avoid[uid] = append(g.avoid[uid], p.node)
		}
	}
	s.lose(g, m)
	for _, uid := range all {
		switch other := g.members[uid]; other.stage {
		case kept:
			s.lose(g, other)
		case reserved:
			other.place.node, other.place.here = "", 0 // it is on its way, and comes back: see Unbound
		case pending, bound, invalid, stages:
		}
	}
	s.again(g, lastResend)
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
