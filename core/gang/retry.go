package gang

import (
	"cmp"
	"container/heap"
	"time"
)

// The times between two plans of a gang that was refused: by a filter, from the
// first to the last; else such a multiple of what planning it costs.
const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	// learnAtOnce is how many plans in a row may follow at once, each of which knows of
	// one refusal more.
	learnAtOnce = 8
	costFactor  = 40
	leastPause  = 50 * time.Millisecond
	gather      = time.Millisecond // after something was given back: what comes with it counts too
	refresh     = 10 * time.Second // where something was given back, and not enough: keeps the reason current
)

// pause is the time after a number of plans that something refused.
func pause(rounds int) time.Duration {
	return min(lastRetry, firstRetry<<min(max(rounds-1, 0), 5))
}

// again wakes the leader of g after a while, and allows no plan before.
func (s *step) again(g *state, after time.Duration) {
	g.retry = s.now.Add(after)
	s.wakeIn(g, after)
}

// wakeIn wakes the leader of g after a while, unless that is to be sooner already.
func (s *step) wakeIn(g *state, after time.Duration) {
	at := s.now.Add(after)
	if g.wakes.IsZero() || g.wakes.After(at) {
		g.wakes = at
		s.m.alarm(alarm{at: at, gang: g})
	}
}

func (Time) happen(s *step) {
	m := s.m
	for len(m.alarms) > 0 && !m.alarms[0].at.After(s.now) {
		a := heap.Pop(&m.alarms).(alarm)
		switch {
		case !m.current(&a):
		case a.partial:
			s.overdue(a.gang)
		case a.member != "":
			a.gang.members[a.member].place.resend = time.Time{}
			s.wake(a.member)
		default:
			s.wakeLeader(a.gang)
		}
	}
}

// wakeLeader wakes the leader of g now, or when it may plan again.
func (s *step) wakeLeader(g *state) {
	g.wakes = time.Time{}
	switch early := g.retry.Sub(s.now); {
	case g.plan != nil:
	case early > 0:
		g.due = true
		s.wakeIn(g, early)
	default:
		s.plan(g)
	}
}

// alarm is a time at which a gang's leader is to be woken, or a member whose place
// is kept, or the gang is to be looked at. It is not taken back: one that is not current is passed over.
type alarm struct {
	at     time.Time
	serial int
	gang   *state
	member string // "" is the leader, whichever member that is then
	// partial is that it is about the gang as a whole: see partial.look.
	partial bool
}

// alarms are a heap, the next one first.
type alarms []alarm

func (m *Machine) alarm(a alarm) {
	m.serial++
	a.serial = m.serial
	heap.Push(&m.alarms, a)
}

// current reports whether an alarm is still to be heeded.
func (m *Machine) current(a *alarm) bool {
	if m.gangs[a.gang.spec.Key] != a.gang {
		return false
	}
	if a.partial {
		return a.gang.partial.look.Equal(a.at)
	}
	if a.member == "" {
		return a.gang.wakes.Equal(a.at)
	}
	k := a.gang.members[a.member]
	return k != nil && k.stage == kept && k.place.resend.Equal(a.at)
}

// next is when the next alarm is; zero is never.
func (a *alarms) next(m *Machine) time.Time {
	for len(*a) > 0 && !m.current(&(*a)[0]) {
		heap.Pop(a)
	}
	if len(*a) == 0 {
		return time.Time{}
	}
	return (*a)[0].at
}

func (a alarms) Len() int { return len(a) }
func (a alarms) Less(i, j int) bool {
	return cmp.Or(a[i].at.Compare(a[j].at), cmp.Compare(a[i].serial, a[j].serial)) < 0
}
func (a alarms) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push implements heap.Interface.
func (a *alarms) Push(x any) { *a = append(*a, x.(alarm)) }

// Pop implements heap.Interface.
func (a *alarms) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}
