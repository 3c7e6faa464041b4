package gang

import (
	"time"

	"berth.dev/berth/core/queue"
)

// Actions are what is to be done after an event, in the order of the fields.
type Actions struct {
	Answer  Answer   // about the event's member
	Ranks   []Rank   // where members stand in the queue from now on
	Permit  []string // members that wait for others and may go on
	Release []string // members whose devices are not to be held any longer
	Return  []Return // members that wait for others and have to go back
	Leave   []string // members that are to wait in no queue.Lines: their gang needs them now
	Wake    []string // members to put into the queue
	Evict   *Evict   // members that are to end; nil: none
	Ended   []string // gangs, by Spec.Key, that have no members any longer
	// Changed is that members may wait for something else than before: see
	// Machine.Waits.
	Changed bool
	// WakeAt is when the Machine wants the event Time; zero is never. It holds
	// until the next Step.
	WakeAt time.Time
}

// Answer is what an event's member is told.
type Answer struct {
	Reason string // why it cannot go on; "" is that it can, or waits
	Wait   bool   // it waits for others
	// Whole is that room may be made for it only as part of its gang, or is not
	// to be made.
	Whole bool
	// Follows is that another member leads: room is made for that one.
	Follows bool
}

// Evict is the members of a gang that run, and are to end because the rest cannot
// follow: all of them or, if one must not be evicted, none; then the answer is the event
// NotEvicted.
type Evict struct {
	Gang    string // Spec.Key
	Name    string
	Members []string // by UID
	Why     string   // "it runs with 3 of the 4 pods that it needs, because ..."
}

// Rank is where a member stands in the queue. While the member is there it only
// changes for one beyond the minimum whose gang loses others.
type Rank struct {
	UID     string
	Oldest  queue.Age // of its gang
	Order   int       // of the plan, from 1; 0 is that the plan has none
	Partial bool      // others of the gang are bound, fewer than it needs
	Over    int64     // as in queue.Ticket
	Ends    bool      // it stands nowhere any longer
}

// Return is a member to be sent back, and why.
type Return struct{ UID, Reason string }

func (s *step) wake(uids ...string)    { s.out.Wake = append(s.out.Wake, uids...) }
func (s *step) release(uids ...string) { s.out.Release = append(s.out.Release, uids...) }
func (s *step) refuse(reason string)   { s.out.Answer.Reason = reason }

// rank notes where a member stands.
func (s *step) rank(g *state, m *member) {
	r := Rank{UID: m.pod.UID, Oldest: g.since, Partial: g.count[bound] > 0}
	if g.plan != nil {
		r.Order = g.plan.order[m.pod.UID]
	}
	if m.over > 0 {
		r.Partial, r.Over = false, int64(m.over)*max(1, m.pod.Milli)
	}
	s.out.Ranks = append(s.out.Ranks, r)
}

// unrank forgets where a member stood.
func (s *step) unrank(uid string) { s.out.Ranks = append(s.out.Ranks, Rank{UID: uid, Ends: true}) }
