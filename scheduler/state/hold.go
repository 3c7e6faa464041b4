package state

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/sharing"
)

// Hold is devices of one node that are promised to a pod that is not bound yet:
// a member of a gang that is planned as a whole, or a pod that others make room
// for. They count as held for everybody but the pod; PreFilter sends the pod
// straight to the node, and Reserve gives it exactly these devices, whatever
// else is free.
//
// Devices that somebody still holds, because room is being made, belong to the
// hold as soon as they are free; until then Filter says that the pod waits.
//
// A hold lives in the scheduler's memory only. It ends when the pod's devices
// are reserved, when the pod is bound or deleted, and when release gives it up.
type Hold struct {
	Pod     *v1.Pod
	Node    string
	Request cluster.Request            // with CPU and memory of the node
	Named   map[string][]sharing.Named // by container; nil where the pod asks for no devices or the node publishes none
	Parts   []sharing.Part             // what the containers ask for
	At      []cluster.Device           // the same devices, as package placement has them
	Why     string                     // for messages and metrics: "gang NAMESPACE/NAME", "preemption"
	Taken   int64                      // holds in the order in which they were taken
	Doubt   bool                       // of State.Doubtful: it names no node, and others of the node do as well
}

// HoldOf gives what is held for a pod, or nil.
func (d *State) HoldOf(uid types.UID) *Hold {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.Holds[uid]
}

// Release gives up what is held for a pod, and calls those who wait for it. It
// says whether there was anything. It may be called at any time, but not with mu
// held, nor from where the scheduling queue calls a plugin.
func (d *State) Release(uid types.UID) bool {
	d.Mu.Lock()
	had := d.DropHold(uid)
	d.Mu.Unlock()
	if had {
		d.Waiting.Wake()
	}
	return had
}

// Withdraw gives up what is held for a pod without calling anybody: what was taken
// in this scheduling cycle has kept nobody from anything.
func (d *State) Withdraw(uid types.UID) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.DropHold(uid)
}

// DropHold is release with mu held, and calls nobody.
func (d *State) DropHold(uid types.UID) bool {
	h := d.Holds[uid]
	if h == nil {
		return false
	}
	delete(d.Holds, uid)
	d.MarkStale(h.Node)
	return true
}
