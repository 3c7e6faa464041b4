package gang

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A gang of which some members run, but fewer than it needs, wastes what they hold. If the
// rest cannot follow within the gang's grace, all that run are evicted: the gang is released,
// and the pods that controllers create in their place wait in the queue. That is done
// only if every member that runs has such a controller, and as many members exist as the
// gang needs.
const (
	// DefaultGrace is how long a gang may run with fewer members than it needs.
	DefaultGrace = time.Minute
	// rejectedGrace is the same for a gang that never had all the members that it needs, and
	// of which the API server rejects one.
	rejectedGrace = 5 * time.Second
	lookAgain     = time.Second      // while a plan, or room that is made, may bring the rest
	releaseAgain  = 30 * time.Second // after a release that was not possible
	recallFor     = time.Hour        // a release
)

// partial is how a gang runs with fewer members than it needs.
type partial struct {
	since   time.Time // zero is that it does not
	look    time.Time // when to look at it; zero is never
	ran     bool      // all that it needs have run
	rests   time.Time // no release before
	leaving bool      // it is being released
	stuck   string    // why it cannot be released; "" is not known, or that it can
}

// release is what is remembered of a gang that was released: the pod that the API server
// rejected when others were bound, the node, and the reason; or nothing of these.
type release struct {
	at                 time.Time
	name, node, reason string
}

// lacks notes since when g runs with fewer members than it needs, and has it looked at when
// its grace is over.
func (s *step) lacks(g *state) {
	p := &g.partial
	least, why := g.least()
	switch n := g.count[bound]; {
	case n == 0:
		*p = partial{}
		return
	case why != "":
		return
	case n >= least:
		*p = partial{ran: true}
		if r := g.released; r != nil {
			delete(s.m.released, g.spec.Key)
			g.released, g.shun = nil, ""
		}
		return
	case p.leaving:
		s.evict(g)
		return
	case p.since.IsZero():
		p.since = s.now
		if g.released != nil { // one was bound first, and the others follow: see Machine.First
			for _, m := range g.byName(kept) {
				s.wake(m.pod.UID)
			}
		}
	}
	at := g.graceEnds()
	if at.IsZero() {
		return
	}
	if at.Before(p.rests) {
		at = p.rests
	}
	if soon := s.now.Add(lookAgain); at.Before(soon) { // a pod that has just been created may be placed yet
		at = soon
	}
	if p.look.IsZero() || at.Before(p.look) {
		s.look(g, at)
	}
}

// look has g looked at, at a time.
func (s *step) look(g *state, at time.Time) {
	if at.Before(s.now) {
		at = s.now
	}
	g.partial.look = at
	s.m.alarm(alarm{at: at, gang: g, partial: true})
}

// graceEnds is until when g may run with fewer members than it needs; zero is for as long
// as it likes.
func (g *state) graceEnds() time.Time {
	grace := g.spec.Grace
	switch {
	case grace < 0:
		return time.Time{}
	case grace == 0:
		grace = DefaultGrace
	}
	at := g.partial.since.Add(grace)
	if m := g.late(); m != nil && m.place.since.Add(rejectedGrace).Before(at) {
		at = m.place.since.Add(rejectedGrace)
	}
	return at
}

// late returns the member that the API server rejects although others are bound, of a gang
// that never had all that it needs; nil is none.
func (g *state) late() *member {
	if g.partial.ran {
		return nil
	}
	var out *member
	for _, m := range g.members {
		if m.stage == kept && m.place.refused && (out == nil || byName(m, out) < 0) {
			out = m
		}
	}
	return out
}

// overdue releases a gang whose grace is over, or notes why not.
func (s *step) overdue(g *state) {
	p := &g.partial
	p.look = time.Time{}
	least, why := g.least()
	n := g.count[bound]
	if why != "" || n == 0 || n >= least || p.leaving || g.ready()+g.count[pending] < least {
		return
	}
	if end := g.graceEnds(); end.After(s.now) {
		s.look(g, end)
		return
	}
	if g.plan != nil || g.room {
		s.look(g, s.now.Add(lookAgain))
		return
	}
	if k := g.unreplaced(); k != nil {
		s.stays(g, fmt.Sprintf("no controller would create its pod %s again", k.pod.Name))
		return
	}
	r := &release{at: s.now}
	if m := g.late(); m != nil {
		r.name, r.node, r.reason = m.pod.Name, m.place.node, m.place.reason
	}
	p.leaving, p.stuck, g.whole, g.released, g.shun = true, "", false, r, r.node
	for key, old := range s.m.released {
		if s.now.Sub(old.at) > recallFor {
			delete(s.m.released, key)
		}
	}
	s.m.released[g.spec.Key] = r
	for _, m := range g.byName(kept) {
		s.lose(g, m)
	}
	s.evict(g)
}

// stays notes why g is not released, and has a member say so.
func (s *step) stays(g *state, why string) {
	if text := "the gang is not released, because " + why; g.partial.stuck != text {
		g.partial.stuck, s.out.Changed = text, true
		s.wake(g.lead()...)
	}
}

// evict has the members evicted that run, of a gang that is released.
func (s *step) evict(g *state) {
	least, _ := g.least()
	out := &Evict{Gang: g.spec.Key, Name: g.spec.Name, Why: fmt.Sprintf("it runs with %d of the %d pods that it needs", g.count[bound], least)}
	if r := g.released; r != nil && r.reason != "" {
		out.Why += ", because " + rejectedText(r.name, r.node, r.reason)
	}
	for _, m := range g.byName(bound) {
		if !m.ends {
			m.ends = true
			out.Members = append(out.Members, m.pod.UID)
		}
	}
	if len(out.Members) > 0 {
		s.out.Evict, s.out.Changed = out, true
	}
}

// byName lists the members of a stage.
func (g *state) byName(of stage) []*member {
	var out []*member
	for _, m := range g.members {
		if m.stage == of {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, byName)
	return out
}

// unreplaced returns the first member that runs and would not be created again; nil is none.
func (g *state) unreplaced() *member {
	for _, m := range g.byName(bound) {
		if !m.pod.Replaced {
			return m
		}
	}
	return nil
}

func (e NotEvicted) happen(s *step) {
	g := s.m.gangs[e.Gang]
	if g == nil || !g.partial.leaving {
		return
	}
	for _, m := range g.members {
		m.ends = false
	}
	g.partial.leaving = false
	s.stays(g, e.Why)
	g.partial.rests = s.now.Add(releaseAgain)
	s.look(g, g.partial.rests)
	s.turn(g)
}

// recall gives a gang that has come again what is remembered of its release.
func (s *step) recall(g *state, key string) {
	if r := s.m.released[key]; r != nil && s.now.Sub(r.at) <= recallFor {
		g.released, g.shun = r, r.node
	}
}

// First returns the member that must be bound before the others of the gang of a member,
// as the API server has rejected it, or one of the same number, when others were bound; ""
// is none. Then no other of them may be bound before.
func (m *Machine) First(uid string) string {
	if g := m.of[uid]; g != nil {
		if first := g.first(); first != nil {
			return first.pod.UID
		}
	}
	return ""
}

// first is the member of Machine.First; nil is none.
func (g *state) first() *member {
	if g.released == nil || g.released.reason == "" || g.count[bound] > 0 {
		return nil
	}
	var first *member
	most := -1
	for _, of := range []stage{reserved, kept} {
		for _, k := range g.byName(of) {
			if n := alike(k.pod.Name, g.released.name); n > most && k.place.node != "" {
				first, most = k, n
			}
		}
	}
	return first
}

// alike is how long two names are equal from their beginning, in parts between hyphens:
// the pod that a Job creates for a number has another end.
func alike(a, b string) int {
	x, y := strings.Split(a, "-"), strings.Split(b, "-")
	n := 0
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	return n
}

// Stuck returns why the gang of a member is not released although it runs with fewer members
// than it needs and its grace is over; "" is that it is not so.
func (m *Machine) Stuck(uid string) string {
	if g := m.of[uid]; g != nil {
		return g.partial.stuck
	}
	return ""
}

// Rejected is what the API server has rejected of the gang of a member, as a sentence: now, or
// before the gang was released; "" is nothing.
func (m *Machine) Rejected(uid string) string {
	g := m.of[uid]
	switch {
	case g == nil:
	case g.rejected != nil:
		return rejectedText(g.rejected.name, g.rejected.node, g.rejected.reason)
	case g.released != nil && g.released.reason != "":
		return rejectedText(g.released.name, g.released.node, g.released.reason)
	}
	return ""
}

func rejectedText(name, node, reason string) string {
	return fmt.Sprintf("the API server rejects its pod %s on node %s: %s", name, node, reason)
}

// Runs reports whether a member of the gang of a member is bound.
func (m *Machine) Runs(uid string) bool {
	g := m.of[uid]
	return g != nil && g.count[bound] > 0
}
