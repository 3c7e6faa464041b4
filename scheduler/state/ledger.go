package state

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

// Ledger is the devices of one node at one generation of its NodeInfo. It follows
// the NodeInfo pod by pod as long as every pod's devices are known exactly; else
// it is made again.
type Ledger struct {
	generation int64
	stale      bool // what is assumed or held here has changed since
	exact      bool // every pod holds what its annotation or State names
	round      int  // times that it has followed
	Version    int  // times that what is held here has changed

	// The fields above are guarded by State.Mu, those below by mu, which is taken
	// after it.

	Mu       sync.Mutex
	object   *v1.Node
	Err      error   // its annotations cannot be read
	problems []error // pods that could not be counted
	gpus     []gpu.GPU
	sharing  gpu.Sharing
	Ledger   *sharing.Ledger // nil: the node publishes no devices
	empty    *sharing.Ledger // the same with nothing held; made when it is needed
	Pods     map[types.UID]*counted
	Holds    []*reserved
	answers  map[string]answer // by shape
}

// counted is one pod on a node, as it was counted.
type counted struct {
	Pod     *v1.Pod
	asks    bool             // for devices
	note    string           // the annotation, or what it will be
	Devices []sharing.Device // each once
	round   int

	parts []sharing.Part             // what it asks for; nil is not read yet
	named map[string][]sharing.Named // what note says; nil is not read yet
}

// reserved is a hold as far as its devices are free.
type reserved struct {
	*Hold
	Devices []sharing.Device
	missing int // devices that are still held
}

// answer says whether a request fits a node.
type answer uint8

// The answers.
const (
	Fits    answer = iota
	Full           // not now; it would if pods left
	never          // not if it were empty either
	TooMany        // it asks for several shares where the node gives one only
	Soon           // what is held for it is not free yet
)
