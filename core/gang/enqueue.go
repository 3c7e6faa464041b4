package gang

import (
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/core/queue"
)

func (e Enqueue) happen(s *step) {
	g, m := s.see(&e.Pod)
	if m.stage != pending && m.stage != invalid {
		return
	}
	if r := g.refused; r != nil && g.plan == nil && g.count[pending] > r.tried { // one more, who may fit where another does not
		r.tried = g.count[pending]
		s.wakeIn(g, max(gather, g.retry.Sub(s.now)))
	}
	reason := s.heldBack(g, m)
	s.refuse(reason)
	if m.held = reason != ""; m.held {
		s.out.Changed = true
	} else {
		g.measure(m)
		s.rank(g, m)
	}
}

// missing says what is not there yet for m to be planned; "" is nothing.
func (g *state) missing(m *member) string {
	if m.pod.Invalid != "" {
		return m.pod.Invalid
	}
	if g.partial.leaving {
		return fmt.Sprintf("gang %s is released: its pods start again together when those that run have ended", g.spec.Name)
	}
	least, why := g.least()
	if here := g.ready() + g.count[pending]; why == "" && here < least {
		return missingText(g, here, least)
	}
	return why
}

// heldBack says why m must not enter the queue. Where the gang has no leader, m is
// from now on.
func (s *step) heldBack(g *state, m *member) string {
	if reason := g.missing(m); reason != "" {
		return reason
	}
	uid := m.pod.UID
	switch least, _ := g.least(); {
	case g.planned(uid), g.ready() >= least:
		return ""
	case g.plan != nil:
		return fmt.Sprintf("waiting for the rest of gang %s to be placed", g.spec.Name)
	}
	g.since = g.age()
	if !g.led() {
		g.leader, g.whole = uid, true
	}
	if g.leader == uid && !s.now.Before(g.retry) {
		return ""
	}
	return g.waits()
}

// waits is what the members are told that wait for the leader.
func (g *state) waits() string {
	l := g.members[g.leader]
	if r := g.rejected; r != nil {
		return fmt.Sprintf("waiting for gang %s: %s", g.spec.Name, rejectedText(r.name, r.node, r.reason))
	}
	if g.refused == nil || l == nil {
		return fmt.Sprintf("waiting for gang %s to be placed", g.spec.Name)
	}
	return fmt.Sprintf("waiting for gang %s: "+elsewhere+", and pod %s says why", g.spec.Name, l.pod.Name)
}

// Waits is what a member waits for, and the sentence that says so. It is "" where
// the member is not held back, or has its answer from a scheduling cycle, as the
// leader of a gang that was tried.
func (m *Machine) Waits(uid string) (reason string, wait queue.Wait) {
	g := m.of[uid]
	if g == nil {
		return "", queue.Unknown
	}
	k := g.members[uid]
	if !k.held || k.stage != pending && k.stage != invalid {
		return "", queue.Unknown
	}
	switch reason := g.missing(k); {
	case reason != "":
		return reason, g.wait(k)
	case g.planned(uid), g.leader == uid:
		return "", queue.Unknown
	}
	return g.waits(), g.wait(k)
}

// HeldBack lists the members that were not let into the queue, by gang and name.
func (m *Machine) HeldBack() []string {
	var out []string
	for _, g := range m.sorted() {
		var held []*member
		for _, k := range g.members {
			if k.held {
				held = append(held, k)
			}
		}
		slices.SortFunc(held, byName)
		for _, k := range held {
			out = append(out, k.pod.UID)
		}
	}
	return out
}

// WaitOf is what a member waits for while it is held back.
func (m *Machine) WaitOf(uid string) queue.Wait {
	if g := m.of[uid]; g != nil {
		return g.wait(g.members[uid])
	}
	return queue.Unknown
}

// wait is WaitOf. Of a gang that is complete and does not fit, every member waits
// for room: to make enough nodes, an autoscaler must know all of them.
func (g *state) wait(m *member) queue.Wait {
	switch {
	case m.pod.Invalid != "":
		return queue.Invalid
	case g.missing(m) != "", g.refused == nil, g.plan != nil:
		return queue.Gang
	case g.room:
		return queue.Preemption
	}
	return queue.Room
}

// elsewhere is in what is said of pods that wait for the same as another pod of their gang.
const elsewhere = "its pods do not fit together now"

// Elsewhere reports whether the message of a pod that waits only names another pod of its gang, which says why.
func Elsewhere(message string) bool { return strings.Contains(message, elsewhere) }
