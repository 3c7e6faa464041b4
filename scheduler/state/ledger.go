package state

import (
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
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

// newLedger counts pods on a node. Its annotations are read only where they are
// not those of old, the node before, which may be nil.
func newLedger(info fwk.NodeInfo, pods []devices.Bound, holds []*Hold, old *Ledger) *Ledger {
	n := &Ledger{
		generation: info.GetGeneration(), object: info.Node(), answers: map[string]answer{},
		Pods: make(map[types.UID]*counted, len(pods)), exact: true,
	}
	if old != nil {
		n.Version = old.Version + 1
	}
	if old != nil && old.Err == nil && devices.SameAnnotations(n.object, old.object) {
		n.gpus, n.sharing = old.gpus, old.sharing
	} else {
		n.gpus, n.sharing, n.Err = devices.GPUs(n.object)
	}
	if n.Err != nil || len(n.gpus) == 0 {
		n.take(holds)
		return n
	}
	if n.Ledger, n.problems, n.Err = devices.LedgerOf(n.gpus, n.sharing, pods); n.Err != nil {
		n.Err = fmt.Errorf("node %s: %w", n.object.Name, n.Err)
		return n
	}
	for _, b := range pods {
		c := &counted{Pod: b.Pod, asks: true, note: b.Pod.Annotations[api.AnnotationDevices]}
		n.exact = n.exact && (c.note != "" || b.Assumed != nil)
		n.Pods[b.Pod.UID] = c
	}
	n.exact = n.exact && len(n.problems) == 0
	for _, h := range n.Ledger.Held() { // sorted
		if c := n.Pods[types.UID(h.Owner)]; c != nil {
			c.Devices = append(c.Devices, h.Device)
		}
	}
	n.take(holds)
	return n
}

// count counts a pod whose devices its note names, with mu held, and says
// whether it could be.
func (n *Ledger) count(c *counted) bool {
	if c.named == nil {
		var err error
		if c.named, err = commit.ParseCommitment(c.note); err != nil {
			return false
		}
	}
	if c.parts == nil {
		c.parts = request.Parts(c.Pod)
	}
	got, err := n.Ledger.Commit(string(c.Pod.UID), c.parts, c.named)
	if err != nil {
		return false
	}
	c.Devices = distinct(got)
	return true
}

// Fit says whether w fits for pod. Each shape is asked once as long as nothing
// changes here.
func (n *Ledger) Fit(pod *v1.Pod, w *Request) answer {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if r := n.heldFor(pod.UID, false); r != nil {
		if _, err := n.tryHeld(r, w); err != nil {
			return Soon
		}
		return Fits
	}
	if r := n.heldFor(pod.UID, true); r != nil { // it may have the same again
		n.let(r)
		err := tries(n.Ledger, w)
		n.keep(r)
		if err == nil {
			return Fits
		}
	}
	a, known := n.answers[w.shape]
	if known {
		return a
	}
	var several *sharing.TooManyShares
	switch err := tries(n.Ledger, w); {
	case err == nil:
		a = Fits
	case errors.As(err, &several), errors.As(n.triesEmpty(w), &several):
		a = TooMany
	case n.triesEmpty(w) == nil:
		a = Full
	default:
		a = never
	}
	n.answers[w.shape] = a
	return a
}

// tryHeld says whether w can have the devices held for it now, and which.
func (n *Ledger) tryHeld(r *reserved, w *Request) ([][]sharing.Device, error) {
	n.let(r)
	defer n.keep(r)
	got, err := n.Ledger.Commit(probe, w.Parts, r.Named)
	n.Ledger.Release(probe)
	if err != nil {
		return nil, err
	}
	for _, list := range got {
		for _, d := range list {
			if !d.Healthy {
				return nil, fmt.Errorf("device %s is unhealthy", d.UUID)
			}
		}
	}
	return got, nil
}

// triesEmpty says why w does not fit the node with nothing held, or nil.
func (n *Ledger) triesEmpty(w *Request) error {
	if n.empty == nil {
		var err error
		if n.empty, _, err = devices.LedgerOf(n.gpus, n.sharing, nil); err != nil {
			return err
		}
	}
	return tries(n.empty, w)
}

const probe = "probe" // the holder of what is only tried

// tries says why w does not fit, or nil, and leaves l as it was.
func tries(l *sharing.Ledger, w *Request) error {
	_, err := l.Allocate(probe, w.Parts)
	l.Release(probe)
	return err
}
