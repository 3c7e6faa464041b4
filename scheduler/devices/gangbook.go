package devices

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube"
)

// gangBook is what is known of gangs, for all profiles of one scheduler. It is
// kept from what the watch and the queue say of pods. It never calls the
// scheduler with mu held, as the scheduler asks it under locks of its own.
type gangBook struct {
	sizes  *gangSizes
	voice  *gangVoice                       // writes conditions
	desk   *desk                            // keeps the holds
	wake   func([]*v1.Pod)                  // puts pods into the queue
	let    func(types.UID)                  // lets a pod go that waits in Permit
	reject func(uid types.UID, text string) // sends it back

	ranked atomic.Int64 // members in ranks
	ranks  sync.Map     // types.UID to gangRank, of members that were let into the queue

	mu    sync.Mutex
	names map[string]bool // schedulerName of the profiles
	teams map[string]*team
	of    map[types.UID]*team
}

// gangRank is where a member stands in the queue. It does not change while the
// member is there.
type gangRank struct {
	oldest queue.Age // of its members
	partly bool      // others of the gang are bound
}

// stage is how far a member has come.
type stage uint8

const (
	stagePending  stage = iota // has no place
	stageReserved              // has a place, and waits for the others or is being bound
	stageKept                  // its binding was refused; its place is kept, and it is tried again
	stageBound
	stageWrong // its annotations cannot be understood; it does not count
	stages
)

// team is one gang.
type team struct {
	gang    kube.Gang // as its members say
	members map[types.UID]*member
	count   [stages]int
	since   queue.Age              // of its oldest member, as of the first time that it was whole
	leader  types.UID              // the member that is let into the queue to plan; "" is nobody yet
	whole   bool                   // there was something to plan when last looked
	runs    bool                   // enough members had a place when last looked
	plan    *gangPlan              // nil: none
	refused *gangRefusal           // nil: it was not tried, or fitted
	room    bool                   // room is being made for it, since it was refused
	rounds  int                    // plans in a row that something else refused
	avoid   map[types.UID][]string // nodes that refused a member
	retry   time.Time              // no plan before
	timer   *time.Timer            // wakes the leader; nil: none
	wakes   time.Time              // when timer does
}

// member is one pod of a gang.
type member struct {
	pod   *v1.Pod
	stage stage
	wrong string // of stageWrong: why its annotations cannot be understood
	held  bool   // it was not let into the queue: its condition is written here
	place place
}

// gangPlan is where the members that are not bound yet go.
type gangPlan struct {
	nodes  map[types.UID]string
	passed bool // enough had a place: what is planned is being bound
}

// gangRefusal is why a gang did not fit when it was last planned.
type gangRefusal struct {
	short int64 // milli-GPUs that must be given back before it is worth while to plan again
	host  bool  // it lacks what pods without GPUs may give back too
}

func newGangBook() *gangBook {
	return &gangBook{names: map[string]bool{}, teams: map[string]*team{}, of: map[types.UID]*team{}, sizes: newGangSizes()}
}

// knows says whether a pod is of a gang.
func (b *gangBook) knows(uid types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[uid] != nil
}

// ticketOf is what decides when it is a pod's turn.
func (b *gangBook) ticketOf(pod *v1.Pod) queue.Ticket {
	t := kube.TicketOf(pod)
	if b.ranked.Load() == 0 {
		return t
	}
	if r, ok := b.ranks.Load(pod.UID); ok {
		t.Gang, t.Partial = r.(gangRank).oldest, r.(gangRank).partly
	}
	return t
}

// rank notes where a member stands, with mu held.
func (b *gangBook) rank(t *team, uid types.UID) {
	if _, had := b.ranks.Swap(uid, gangRank{t.since, t.count[stageBound] > 0}); !had {
		b.ranked.Add(1)
	}
}

// unrank forgets where a pod stood.
func (b *gangBook) unrank(uid types.UID) {
	if _, had := b.ranks.LoadAndDelete(uid); had {
		b.ranked.Add(-1)
	}
}

// see takes a pod as it is now, with mu held, and gives its place in its gang:
// nil where it is no member, because it is of no gang, or is going, or waits for
// a gate, or is for another scheduler.
func (b *gangBook) see(pod *v1.Pod) (*team, *member) {
	ref, err := kube.GangOf(pod)
	old := b.of[pod.UID]
	if ref == nil || !b.counts(pod) {
		if old != nil {
			b.leave(old, pod.UID)
		}
		return nil, nil
	}
	if old != nil && old.gang.Key != ref.Key {
		b.leave(old, pod.UID)
	}
	t := b.teams[ref.Key]
	if t == nil {
		t = &team{members: map[types.UID]*member{}, avoid: map[types.UID][]string{}}
		b.teams[ref.Key] = t
	}
	if err == nil || t.gang.Key == "" {
		t.gang = *ref
	}
	m := t.members[pod.UID]
	if m == nil {
		m = &member{stage: stages}
		t.members[pod.UID], b.of[pod.UID] = m, t
	}
	if m.pod, m.wrong = pod, ""; err != nil {
		m.wrong = err.Error()
	}
	switch {
	case pod.Spec.NodeName != "":
		b.move(t, m, stageBound)
	case err != nil:
		b.move(t, m, stageWrong)
	case m.stage != stageReserved && m.stage != stageKept:
		b.move(t, m, stagePending)
	}
	return t, m
}

// counts says whether a pod is one that its gang can count on.
func (b *gangBook) counts(pod *v1.Pod) bool {
	switch {
	case pod.DeletionTimestamp != nil, pod.Status.Phase == v1.PodFailed, pod.Status.Phase == v1.PodSucceeded:
		return false
	case pod.Spec.NodeName == "":
		return len(pod.Spec.SchedulingGates) == 0 && b.names[pod.Spec.SchedulerName]
	}
	return true
}

// move brings a member to a stage.
func (b *gangBook) move(t *team, m *member, to stage) {
	if m.stage == to {
		return
	}
	if m.stage < stages {
		t.count[m.stage]--
	}
	t.count[to]++
	if m.stage = to; to == stageWrong {
		m.place = place{}
	}
	if to == stageBound {
		m.held, m.place = false, place{}
		b.unrank(m.pod.UID)
		t.fulfil(m.pod.UID)
	}
}

// fulfil takes a member that needs no place any more out of the plan.
func (t *team) fulfil(uid types.UID) {
	if t.plan == nil {
		return
	}
	delete(t.plan.nodes, uid)
	if len(t.plan.nodes) == 0 {
		t.plan = nil
	}
}

// leave takes a pod out of its gang.
func (b *gangBook) leave(t *team, uid types.UID) {
	t.count[t.members[uid].stage]--
	delete(t.members, uid)
	delete(t.avoid, uid)
	delete(b.of, uid)
	b.unrank(uid)
	if t.leader == uid {
		t.leader, t.refused = "", nil
	}
	if len(t.members) > 0 {
		return
	}
	delete(b.teams, t.gang.Key)
	if t.timer != nil {
		t.timer.Stop()
	}
}

// ready is how many members have a place.
func (t *team) ready() int {
	return t.count[stageReserved] + t.count[stageKept] + t.count[stageBound]
}

// planned says whether the plan has a place for a member.
func (t *team) planned(uid types.UID) bool { return t.plan != nil && t.plan.nodes[uid] != "" }

// waiting lists the members without a place, by the second in which they were
// created and by name: they are placed together, and near one another by number.
func (t *team) waiting() []*v1.Pod {
	var out []*v1.Pod
	for _, m := range t.members {
		if m.stage == stagePending {
			out = append(out, m.pod)
		}
	}
	slices.SortFunc(out, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(a.CreationTimestamp.Unix(), b.CreationTimestamp.Unix()), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// least is how many members of t must have a place before any gets one, or why
// that is not known yet.
func (b *gangBook) least(t *team) (int, string) {
	switch {
	case t.gang.Object == nil && t.gang.MinCount < 1:
		return 0, fmt.Sprintf("gang %s: none of its pods says how many it has", t.gang.Name)
	case t.gang.Object == nil:
		return t.gang.MinCount, ""
	}
	n, why := b.sizes.of(*t.gang.Object)
	if why != "" {
		return 0, fmt.Sprintf("gang %s: %s", t.gang.Name, why)
	}
	return n, ""
}
