package state

import (
	"context"
	"maps"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/scheduler/queue"
	"berth.dev/berth/scheduler/quota"
)

// State keeps what has been chosen and is not in the API yet, and the ledger of
// each node as of one generation of its NodeInfo. All else comes from NodeInfos,
// so that a new scheduler starts with nothing and knows the same.
type State struct {
	Mu      sync.Mutex
	Nodes   map[string]*Ledger
	Assumed map[types.UID]*allocation
	// Doubtful are bindings that were sent, and of which it is not known whether
	// they arrived. Their devices stay held until the pod's fate is seen.
	Doubtful map[types.UID][]*allocation
	Holds    map[types.UID]*Hold
	// binding are holds of pods that are being bound: where a gang keeps the place of
	// one whose binding comes to nothing, they are holds again.
	binding map[types.UID]*Hold
	Taken   int64 // holds so far
	// stale are nodes where something of the above has changed since the view
	// was brought up to date: their NodeInfo does not tell.
	stale map[string]bool
	// arrived are pods of doubtful that the API shows where they were meant to be,
	// and NodeInfos perhaps not yet.
	arrived map[types.UID]bool
	// RetryAll are pods whose one node a Filter refused: they are next tried on all.
	RetryAll map[types.UID]bool
	// SharesToo are pods that no node with GPUs would take: they are next tried on
	// nodes with shares, too.
	SharesToo map[types.UID]bool
	Waiting   *queue.Lines
	Gate      gate // of bindings
	Waits     *queue.Waits
	Quota     *quota.Quota
	// Keeps reports whether the place of a pod is kept when its binding comes to
	// nothing; Answered gets the cause first, and returns the name of its gang then, and what
	// else is to be said.
	Keeps    func(types.UID) bool
	Answered func(uid types.UID, why error) (gang, also string)
	// Clear returns why the binding of a pod must not be written, where the API server
	// would reject one of its gang.
	Clear func(context.Context, *v1.Pod) error
}

// NewState returns the State of an empty cluster.
func NewState() *State {
	d := &State{
		Nodes: map[string]*Ledger{}, Assumed: map[types.UID]*allocation{}, Doubtful: map[types.UID][]*allocation{}, Holds: map[types.UID]*Hold{},
		stale: map[string]bool{}, RetryAll: map[types.UID]bool{}, SharesToo: map[types.UID]bool{}, Waiting: queue.NewLines(), Gate: newGate(), Waits: queue.NewWaits(), Quota: quota.New(),
		binding: map[types.UID]*Hold{}, arrived: map[types.UID]bool{}, Keeps: func(types.UID) bool { return false }, Answered: func(types.UID, error) (string, string) { return "", "" },
		Clear: func(context.Context, *v1.Pod) error { return nil },
	}
	d.Quota.Holding = func(uid types.UID) bool { return d.HoldOf(uid) != nil }
	d.Waits.Failed = d.Quota.Failed
	return d
}

// MarkStale notes that what is known of a node is out of date although its NodeInfo
// has not changed, with mu held.
func (d *State) MarkStale(name string) {
	if n := d.Nodes[name]; n != nil {
		n.stale = true
	}
	d.stale[name] = true
}

// Prune forgets nodes that are no more.
func (d *State) Prune(known func(node string) bool) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	maps.DeleteFunc(d.Nodes, func(name string, _ *Ledger) bool { return !known(name) })
}

// TakeStale gives the nodes touched since the last time.
func (d *State) TakeStale() map[string]bool {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if len(d.stale) == 0 {
		return nil
	}
	out := d.stale
	d.stale = map[string]bool{}
	return out
}

// HoldOf gives what is held for a pod, or nil.
func (d *State) HoldOf(uid types.UID) *Hold {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.Holds[uid]
}
