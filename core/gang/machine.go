package gang

import (
	"slices"
	"time"

	"berth.dev/berth/core/queue"
)

// Machine is what one scheduler knows of all its gangs: a state machine. Step
// takes what has happened and the time, and returns what is to be done. It does
// nothing itself and has no timer and no lock: equal events at equal times give
// equal actions, in a scheduler and in a simulation.
//
// Members wait outside of the scheduling queue until enough of them exist. Then
// one, the leader, is let in and plans for all. Each member that the plan places
// goes straight to its node, where it waits until so many have passed every
// filter that the gang runs. Of a gang that does not fit only the leader is tried
// again, when enough has been given back.
//
// All that the Machine knows comes from the members and what counts them, so a
// new one knows the same: of a gang that runs in part, the rest go first.
type Machine struct {
	gangs  map[string]*state // by Spec.Key
	of     map[string]*state // by UID of a member
	alarms alarms
	serial int // alarms so far
	// released is the last release of each gang, by Spec.Key: its pods have gone, and those
	// that come in their place know of it.
	released map[string]*release
}

// NewMachine returns a Machine that has seen nothing.
func NewMachine() *Machine {
	return &Machine{gangs: map[string]*state{}, of: map[string]*state{}, released: map[string]*release{}}
}

// Spec is a gang as its members describe it.
type Spec struct {
	Key    string // equal for the members of one gang only
	Name   string // for messages
	Within Level  // the farthest that members may be apart
	// Source is the object that counts the members, compared by ==; nil is that
	// they say it themselves.
	Source any
	// Least is how many members must have a place before any gets one. Unknown
	// says why that is not known; "" is that it is.
	Least   int
	Unknown string
	// Grace is how long some members may run without the rest before all are released;
	// 0 is DefaultGrace, and less is for as long as they like.
	Grace time.Duration
}

// stage is how far a member has come.
type stage uint8

const (
	pending  stage = iota // has no place
	reserved              // has a place, and waits for the others or is being bound
	kept                  // its binding was refused; its place is kept, and it is tried again
	bound
	invalid // its annotations cannot be understood; it does not count
	stages
)

// state is one gang.
type state struct {
	spec     Spec
	members  map[string]*member
	count    [stages]int
	priority int32               // of the member that was seen last
	over     int                 // members that wait as one more: see member.over
	since    queue.Age           // of its oldest member, when it was first complete
	leader   string              // the member that is let into the queue to plan; "" is none yet
	whole    bool                // there was something to plan at the last look
	runs     bool                // enough members had a place at the last look
	plan     *planned            // nil: none
	refused  *shortage           // nil: it was not tried, or fitted
	room     bool                // room is being made for it, since it was refused or lacked quota
	rounds   int                 // plans in a row that something else refused
	avoid    map[string][]string // by member, nodes that refused it
	rejected *rejection          // what the API server last rejected of it; nil: nothing, or a member is bound
	retry    time.Time           // no plan before
	due      bool                // it may fit since it was refused, and only retry keeps it from a plan
	tries    bool                // it is being planned, on what there was at its Task
	wakes    time.Time           // when the leader is to be woken; zero is never
	partial  partial             // how it runs with fewer members than it needs
	released *release            // its last release, until all that it needs run again; nil: none
	shun     string              // a node that no member is to be planned on first, since the release; "" is none
}

// member is one member of a gang.
type member struct {
	pod   Pod
	stage stage
	held  bool // it was not let into the queue
	ends  bool // its eviction was asked for
	over  int  // how many members beyond the minimum there are with this one; 0 is not known, or that it is needed
	place place
}

// planned is where the members that are not bound yet go.
type planned struct {
	nodes  map[string]string // by member
	order  map[string]int    // by member, from 1: they are tried in this order
	passed bool              // enough had a place: what is planned is being bound
}

// shortage is why a gang did not fit when it was last planned.
type shortage struct {
	milli int64 // milli-GPUs that must be given back before another plan is worth it
	kept  int64 // the same of pods that are not of lower priority: room can be made of what they leave
	host  bool  // it lacks what pods without GPUs may give back too
	// filters is that Filters refused it: any change to a pod or a node may help.
	filters bool
	tried   int // members that had no place then: with more of them it may fit
}

// step is one Step under way.
type step struct {
	m    *Machine
	now  time.Time
	out  Actions
	last *state // of those whose leaders are woken to plan, the one whose turn comes last; nil is none
}

// Step takes an event and returns what is to be done about it.
func (m *Machine) Step(e Event, now time.Time) Actions {
	s := step{m: m, now: now}
	e.happen(&s)
	s.ahead()
	s.out.Wake = once(s.out.Wake)
	s.out.WakeAt = m.alarms.next(m)
	return s.out
}

// once drops what is in a list before.
func once(list []string) []string {
	if len(list) < 2 {
		return list
	}
	had := make(map[string]bool, len(list))
	return slices.DeleteFunc(list, func(s string) bool {
		was := had[s]
		had[s] = true
		return was
	})
}

// Gang returns the gang of a member, and whether the pod is a member of one.
func (m *Machine) Gang(uid string) (Spec, bool) {
	if g := m.of[uid]; g != nil {
		return g.spec, true
	}
	return Spec{}, false
}

// Least returns how many members the gang of a key needs; 0 is not known.
func (m *Machine) Least(key string) int {
	if g := m.gangs[key]; g != nil && g.spec.Unknown == "" {
		return g.spec.Least
	}
	return 0
}

// Sources lists the objects that count the members of gangs, each at least once.
func (m *Machine) Sources() []any {
	var out []any
	for _, g := range m.gangs {
		if g.spec.Source != nil {
			out = append(out, g.spec.Source)
		}
	}
	return out
}
