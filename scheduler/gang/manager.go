package gang

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/gang/conditions"
	"berth.dev/berth/scheduler/gangsize"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/state"
)

// Manager runs the gang.Machine of one scheduler, for all of its profiles: it
// feeds it what the watch, the queue and the plugins report, and does what it
// says. It never calls the scheduler with mu held, as the scheduler asks it under
// locks of its own.
type Manager struct {
	ctx        context.Context //nolint:containedctx // the life of the evictions that a step starts
	sizes      *gangsize.Sizes
	conditions *conditions.Writer // of members that are held back
	client     kubernetes.Interface
	state      *nodeindex.Cluster               // keeps the holds
	wake       func([]*v1.Pod)                  // puts pods into the queue
	let        func(types.UID)                  // lets a pod go that waits in Permit
	reject     func(uid types.UID, text string) // sends it back

	ranked atomic.Int64 // members in ranks
	ranks  sync.Map     // types.UID to gang.Rank, of members that were let into the queue

	mu        sync.Mutex
	names     map[string]bool // schedulerName of the profiles
	machine   *gang.Machine
	room      Room                  // of the first profile; nil: none
	pods      map[types.UID]*v1.Pod // the members, as they were seen last
	completed map[types.UID]done    // pods that were members, and have done their work
	dryRuns   map[string]*dryRun    // by key of the gang, the last one
	timer     *time.Timer           // fires at wakeAt; nil: never
	wakeAt    time.Time
}

// NewManager returns a Manager that has seen no gang.
func NewManager() *Manager {
	return &Manager{
		names: map[string]bool{}, machine: gang.NewMachine(), pods: map[types.UID]*v1.Pod{}, completed: map[types.UID]done{},
		sizes: gangsize.New(), dryRuns: map[string]*dryRun{},
	}
}

// Happened feeds an event to the machine and does what it says.
func (b *Manager) Happened(e gang.Event) gang.Answer {
	b.mu.Lock()
	do := b.step(e)
	b.mu.Unlock()
	b.do(&do)
	return do.Answer
}

// actions are what the machine says, with the pods to wake.
type actions struct {
	gang.Actions
	wake, evict []*v1.Pod
}

// step feeds an event to the machine, with mu held. What it returns is to be done
// once mu is free.
func (b *Manager) step(e gang.Event) actions {
	do := actions{Actions: b.machine.Step(e, time.Now())}
	for _, r := range do.Ranks {
		b.rank(r)
	}
	for _, uid := range do.Wake {
		if pod := b.pods[types.UID(uid)]; pod != nil {
			do.wake = append(do.wake, pod)
		}
	}
	if do.Evict != nil {
		do.evict = b.running(do.Evict)
	}
	if do.Changed {
		b.conditions.Changed()
	}
	b.setTimer(do.WakeAt)
	return do
}

// do does what the machine says, without mu.
func (b *Manager) do(a *actions) {
	for _, uid := range a.Permit {
		b.let(types.UID(uid))
	}
	for _, uid := range a.Release {
		b.state.Release(types.UID(uid))
	}
	for _, uid := range a.Leave {
		b.state.Waiting.Leave(types.UID(uid))
	}
	for _, back := range a.Return {
		b.state.Waits.Note(types.UID(back.UID), queue.Gang)
		b.reject(types.UID(back.UID), back.Reason)
	}
	if len(a.wake) > 0 {
		b.wake(a.wake)
	}
	if a.Evict != nil {
		b.release(a.Evict, a.evict)
	}
	for _, key := range a.Ended {
		if b.room != nil {
			b.room.GangEnded(key)
		}
	}
}

// setTimer has the timer fire at a time, with mu held; zero is never.
func (b *Manager) setTimer(at time.Time) {
	if at.Equal(b.wakeAt) {
		return
	}
	if b.timer != nil {
		b.timer.Stop()
	}
	if b.timer, b.wakeAt = nil, at; !at.IsZero() {
		b.timer = time.AfterFunc(time.Until(at), b.timeReached)
	}
}

// timeReached is what the timer does.
func (b *Manager) timeReached() {
	b.mu.Lock()
	b.setTimer(time.Time{})
	do := b.step(gang.Time{})
	b.mu.Unlock()
	b.do(&do)
}

// ticketOf is what decides when it is a pod's turn.
func (b *Manager) ticketOf(pod *v1.Pod) queue.Ticket {
	t := request.TicketOf(pod)
	if b.ranked.Load() == 0 {
		return t
	}
	if r, ok := b.ranks.Load(pod.UID); ok {
		r := r.(gang.Rank)
		t.Gang, t.Order, t.Partial, t.Over = r.Oldest, r.Order, r.Partial, r.Over
	}
	return t
}

// rank notes where a member stands in the queue, with mu held.
func (b *Manager) rank(r gang.Rank) {
	uid := types.UID(r.UID)
	if r.Ends {
		if _, had := b.ranks.LoadAndDelete(uid); had {
			b.ranked.Add(-1)
		}
		return
	}
	if _, had := b.ranks.Swap(uid, r); !had {
		b.ranked.Add(1)
	}
	if b.state != nil {
		b.state.Waiting.Rank(uid)
	}
}

// nameOf is the name of the gang of a member.
func (b *Manager) nameOf(uid types.UID) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	spec, _ := b.machine.Gang(string(uid))
	return spec.Name
}

// knows reports whether a pod is a member of a gang.
func (b *Manager) knows(uid types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.machine.Gang(string(uid))
	return ok
}

// Least returns how many members the gang of a key needs; 0 is not known.
func (b *Manager) Least(key string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.machine.Least(key)
}

// waitOf is what a member waits for.
func (b *Manager) waitOf(uid types.UID) queue.Wait {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.machine.WaitOf(string(uid))
}

// keeps reports whether what is held for a pod is kept when its binding comes to
// nothing. The plugins that are told of that all find the same answer, whichever
// comes first.
func (b *Manager) keeps(uid types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, keeps := b.machine.Keeps(string(uid), time.Now())
	return keeps
}

// answered notes that a binding of a pod came to nothing, and why. It returns the name of
// the gang that runs without the pod until it is sent again, or "", and why the gang is not
// released if it should be.
func (b *Manager) answered(uid types.UID, why error) (name, also string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name, keeps := b.machine.Keeps(string(uid), time.Now())
	if !keeps {
		return "", ""
	}
	b.step(gang.Answered{UID: string(uid), Refused: state.Refused(why), Reason: why.Error()})
	if !b.machine.Runs(string(uid)) {
		return "", ""
	}
	if stuck := b.machine.Stuck(string(uid)); stuck != "" {
		also = ", and " + stuck
	}
	return name, also
}

// Unkept notes that places are free that were kept for others.
func (b *Manager) Unkept() { b.Happened(gang.Unkept{}) }

// Broken notes that what was held for a pod went to others.
func (b *Manager) Broken(uid types.UID) { b.Happened(gang.HoldLost{UID: string(uid)}) }
