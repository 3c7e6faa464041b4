package gang

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/gang/conditions"
	"berth.dev/berth/scheduler/gangsize"
	"berth.dev/berth/scheduler/nodeindex"
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

// Room makes room for gangs that do not fit.
type Room interface {
	// RoomForGang says what the leader of a gang waits for that room is made for,
	// "" if for nothing. If the room has become the gang's plan, order is as in Manager.Placed.
	RoomForGang(ctx context.Context, manager *Manager, pod *v1.Pod) (waits string, is queue.Wait, order []string)
	// makeRoomForGang makes room for the gang that a pod leads. A nil status is
	// that there is nothing to do.
	MakeRoomForGang(ctx context.Context, cycle fwk.CycleState, manager *Manager, pod *v1.Pod) (*fwk.PostFilterResult, *fwk.Status)
	// GangEnded forgets what is kept for a gang, by its key, of which no pod is left.
	GangEnded(key string)
	// EvictGang evicts the pods of a gang that cannot go on, all of them or none, and
	// returns at once. kept is called with the reason if they must stay.
	EvictGang(ctx context.Context, e *gang.Evict, pods []*v1.Pod, kept func(why string))
}

// dryRun is one question to the API server: whether it accepts the bindings of a gang.
type dryRun struct {
	done     chan struct{}
	at       time.Time // of the answer
	rejected types.UID // the member; "" is none
	err      error     // why
}

// done is a pod that has done its work: its gang, and its name.
type done struct{ gang, name string }

// evictsBy notes what evicts the members of gangs that are released.
func (b *Manager) evictsBy(room Room) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.room == nil {
		b.room = room
	}
}

// also is what else is to be said of a gang that does not fit: what the API server rejects of it,
// and why it is not released although it runs with fewer pods than it needs; or "".
func (b *Manager) also(uid types.UID) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if why := b.machine.Stuck(string(uid)); why != "" {
		return "; others of the gang run, and " + why
	}
	if why := b.machine.Rejected(string(uid)); why != "" {
		return "; " + why
	}
	return ""
}
