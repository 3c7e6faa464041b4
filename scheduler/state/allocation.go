package state

import (
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/sharing"
)

// allocation is the devices chosen for a pod.
type allocation struct {
	pod        *v1.Pod
	Node       string
	parts      []sharing.Part
	Named      map[string][]sharing.Named
	Devices    []sharing.Device // each once
	Annotation string
	Warning    string // to the user, when the pod is bound
	doubt      bool   // see State.Doubtful
}

// Hold is devices of one node that are promised to a pod that is not bound yet:
// a member of a gang that is planned as a whole, or a pod that others make room
// for. They count as held for all pods but this one; PreFilter sends the pod
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

// Reservation is the Why of what is kept for a pod that others overtake.
const Reservation = "reservation"
