package gang

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Task is what is to be planned of a gang.
type Task struct {
	Gang    Spec
	Members []string            // those without a place, by UID
	Need    int                 // of them
	Near    []string            // nodes of the members that have a place
	Avoid   map[string][]string // nodes that refused a member
	Most    int                 // of them, where another gang waits for the rest; 0 is all
	Extra   bool                // the gang runs, and Members is one more
}

// Task returns what a member is to plan; nil where there is nothing, as it is of no
// gang or one more member of a gang that runs. reason says why it must wait; where
// paced is set, also that the gang was planned a moment ago. Placed or Unfit is to follow a paced one.
func (m *Machine) Task(uid string, paced bool, now time.Time) (task *Task, reason string) {
	g := m.of[uid]
	if g == nil {
		return nil, ""
	}
	least, why := g.least()
	switch invalid := g.members[uid].pod.Invalid; {
	case invalid != "":
		return nil, invalid
	case why != "":
		return nil, why
	case g.partial.leaving:
		return nil, g.missing(g.members[uid])
	}
	task = &Task{Gang: g.spec, Members: g.waiting(), Need: least - g.ready(), Near: g.near(""), Avoid: map[string][]string{}}
	for uid, nodes := range g.avoid {
		task.Avoid[uid] = slices.Clone(nodes)
	}
	if g.shun != "" {
		for _, uid := range task.Members {
			task.Avoid[uid] = append(task.Avoid[uid], g.shun)
		}
	}
	switch {
	case task.Need <= 0 && g.spec.Within == Cluster:
		return nil, ""
	case task.Need <= 0:
		task.Members, task.Need, task.Extra = []string{uid}, 1, true
	case g.plan != nil, len(task.Members) < task.Need:
		return nil, fmt.Sprintf("waiting for the rest of gang %s", g.spec.Name)
	case paced && now.Before(g.retry):
		return nil, g.waits()
	}
	if len(task.Members) > task.Need && !task.Extra && m.shares(g) {
		task.Most = task.Need
	}
	g.tries = g.tries || paced && !task.Extra
	return task, ""
}

func (e Placed) happen(s *step) {
	if e.Task.Extra {
		return
	}
	g := s.m.of[e.UID]
	if g == nil {
		s.release(slices.Sorted(maps.Keys(e.Nodes))...)
		return
	}
	g.leader, g.room, g.due, g.tries = e.UID, false, false, false
	g.plan = &planned{nodes: maps.Clone(e.Nodes), order: make(map[string]int, len(e.Order))}
	for i, uid := range e.Order {
		g.plan.order[uid] = i + 1
	}
	s.turn(g) // some may have gone meanwhile
	for _, uid := range e.Task.Members {
		if uid != e.UID && g.planned(uid) {
			s.wake(uid)
		}
	}
}

func (e Unfit) happen(s *step) {
	g := s.m.of[e.UID]
	if g == nil {
		return
	}
	g.leader, g.room, g.due, g.tries = e.UID, false, false, false
	g.refused = &shortage{
		milli: e.Refusal.ShortMilli, kept: math.MaxInt64, host: host(e.Refusal.Nodes), filters: len(e.Refusal.Filtered) > 0,
		tried: g.count[pending],
	}
	g.retry = s.now.Add(max(leastPause, costFactor*e.Cost))
	if g.refused.filters { // their answer may change without an event
		s.wakeIn(g, lastRetry)
	}
	if g.shun != "" { // nowhere else, so there
		g.shun = ""
		s.again(g, leastPause)
	}
	if len(g.avoid) > 0 { // it may fit where something refused it before
		g.avoid = map[string][]string{}
		if g.rejected != nil {
			s.again(g, leastPause)
		} else {
			s.again(g, pause(g.rounds))
		}
	}
	s.out.Changed = true
}

func (e Freed) happen(s *step) {
	g := s.m.of[e.UID]
	if g == nil || g.leader != e.UID || g.plan != nil {
		return
	}
	if g.refused == nil { // it lacked quota, and never nodes: room may be made for it all the same
		if g.room && e.Ended {
			s.wakeIn(g, gather)
		}
		return
	}
	if e.Other && !g.refused.filters {
		return
	}
	if e.Ended {
		if e.Milli == 0 && !g.refused.host && !g.refused.filters {
			return
		}
		if e.Priority >= g.priority {
			g.refused.kept -= min(g.refused.kept, e.Milli)
		}
		if g.refused.milli -= e.Milli; g.refused.milli > 0 && g.refused.kept > 0 {
			s.wakeIn(g, refresh)
			return
		}
	}
	g.due = true
	s.wakeIn(g, max(gather, g.retry.Sub(s.now)))
}

func (e Filtered) happen(s *step) {
	g := s.m.of[e.UID]
	if g == nil {
		return
	}
	m := g.members[e.UID]
	switch early := g.planned(e.UID) && !g.plan.passed; {
	case early:
		node := g.plan.nodes[e.UID]
		s.giveUp(g, fmt.Sprintf("gang %s is planned again: pod %s may not be on node %s", g.spec.Name, m.pod.Name, node))
		s.without(g, m, node)
	case m.stage == kept && g.count[bound] == 0:
		s.loseAll(g, m)
		s.turn(g)
		s.out.Answer = Answer{Whole: true, Reason: fmt.Sprintf("gang %s is planned again: the place of this pod is gone", g.spec.Name)}
	case m.stage == kept:
		node := m.place.node
		s.lose(g, m)
		s.without(g, m, node)
	case g.planned(e.UID):
		g.fulfill(e.UID)
		s.release(e.UID)
	default:
		least, why := g.least()
		if s.out.Answer.Whole = why != "" || g.ready() < least; !s.out.Answer.Whole && m.over == 0 {
			g.measure(m) // it was let in as one that its gang needs: it must not be numbered when it is called
			s.rank(g, m)
		}
		s.out.Answer.Follows = s.out.Answer.Whole && g.leader != "" && g.leader != e.UID && g.led()
	}
}

// without has g planned again, at once the first learnAtOnce times, with a node left
// out for a member that was refused there: each of these plans knows more than the one
// before.
func (s *step) without(g *state, m *member, node string) {
	uid := m.pod.UID
	g.avoid[uid], g.leader = append(g.avoid[uid], node), uid
	if g.rounds++; g.rounds <= learnAtOnce {
		g.retry = time.Time{}
		s.wake(uid)
	} else {
		s.again(g, pause(g.rounds-learnAtOnce))
	}
	s.turn(g)
	s.out.Answer = Answer{Whole: true, Reason: fmt.Sprintf("gang %s is planned again without node %s for this pod", g.spec.Name, node)}
}

func (e Preempting) happen(s *step) {
	if g := s.m.of[e.UID]; g != nil {
		g.retry, g.room, s.out.Changed = time.Time{}, !e.Reserved, true
	}
}

func (e NoVictims) happen(s *step) {
	if g := s.m.of[e.UID]; g != nil && g.refused != nil {
		g.refused.kept = e.ShortMilli
	}
}

func (e HoldLost) happen(s *step) {
	g := s.m.of[e.UID]
	switch {
	case g != nil && g.members[e.UID].stage == kept:
		s.lose(g, g.members[e.UID])
	case g != nil && g.plan == nil && g.refused != nil: // places were kept for it until others end
	case g == nil || !g.planned(e.UID) || g.plan.passed:
		return
	default:
		s.giveUp(g, fmt.Sprintf("gang %s gives way to pods of higher priority", g.spec.Name))
	}
	g.retry = time.Time{}
	s.wake(g.lead()...)
}
