package state

import (
	"errors"
	"fmt"
	"slices"
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

// reserved is a hold as far as its devices are free.
type reserved struct {
	*Hold
	Devices []sharing.Device
	missing int // devices that somebody still has
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

// take gives to holds those of their devices that are free.
func (n *Ledger) take(holds []*Hold) {
	for _, r := range n.Holds {
		n.let(r)
	}
	n.Holds = nil
	for _, h := range holds {
		r := &reserved{Hold: h}
		n.keep(r)
		n.Holds = append(n.Holds, r)
	}
}

// keep takes the devices of a hold one by one. A device that an init container
// hands on is named twice and taken once.
func (n *Ledger) keep(r *reserved) {
	if r.Devices, r.missing = nil, 0; n.Ledger == nil {
		return
	}
	done := map[sharing.Named]int{}
	for i := range r.Parts {
		p, seen := &r.Parts[i], map[sharing.Named]int{}
		k := 0
		for _, a := range p.Asks {
			left := units(a)
			if _, _, share := a.ShareOf(); !share || a.Share != (sharing.ShareSize{}) {
				a.Count = 1
			}
			for ; left > 0 && k < len(r.Named[p.Name]); left-- {
				want := r.Named[p.Name][k]
				k++
				if seen[want]++; seen[want] <= done[want] {
					continue
				}
				got, err := n.Ledger.Commit(r.Owner(r.missing+len(r.Devices)), []sharing.Part{{Name: p.Name, Asks: []sharing.Ask{a}}},
					map[string][]sharing.Named{p.Name: {want}})
				if err != nil {
					r.missing++
					continue
				}
				r.Devices = append(r.Devices, got[0]...)
			}
		}
		for want, times := range seen {
			done[want] = max(done[want], times)
		}
	}
}

// let gives the devices of a hold back.
func (n *Ledger) let(r *reserved) {
	for k := range r.missing + len(r.Devices) { // none without a ledger
		n.Ledger.Release(r.Owner(k))
	}
}

// Owner is who holds the k-th device of a hold, to a ledger.
func (r *reserved) Owner(k int) string {
	if r.Doubt {
		return fmt.Sprintf("doubt/%s/%d/%d", r.Pod.UID, -r.Taken, k)
	}
	return fmt.Sprintf("hold/%s/%d", r.Pod.UID, k)
}

// heldFor gives what is held here for a pod, or nil; with doubt what a binding of
// it may bring.
func (n *Ledger) heldFor(uid types.UID, doubt bool) *reserved {
	for _, r := range n.Holds {
		if r.Pod.UID == uid && r.Doubt == doubt {
			return r
		}
	}
	return nil
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

// Choose picks the devices of w for pod: those that are held for it, else those
// that named names, else what the ledger picks. The ledger is as before: the
// choice counts when the pod is on the node.
func (n *Ledger) Choose(pod *v1.Pod, w *Request, named map[string][]sharing.Named) (*allocation, error) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	got, err := n.pick(pod, w, named)
	if err != nil {
		return nil, err
	}
	c := &allocation{pod: pod, Node: n.object.Name, parts: w.Parts, Named: make(map[string][]sharing.Named, len(w.Parts)), Devices: distinct(got)}
	for i := range w.Parts {
		c.Named[w.Parts[i].Name] = sharing.NamedOf(got[i])
	}
	c.Annotation, err = commit.Commitment(w.Parts, got)
	return c, err
}

// pick is choose before what is chosen is named, with mu held.
func (n *Ledger) pick(pod *v1.Pod, w *Request, named map[string][]sharing.Named) ([][]sharing.Device, error) {
	if r := n.heldFor(pod.UID, false); r != nil {
		return n.tryHeld(r, w)
	}
	if r := n.heldFor(pod.UID, true); r != nil {
		if got, err := n.tryHeld(r, w); err == nil {
			return got, nil
		}
		n.let(r)
		defer n.keep(r)
	}
	if named != nil {
		got, err := n.Ledger.Commit(probe, w.Parts, named)
		n.Ledger.Release(probe)
		if err == nil && !slices.ContainsFunc(got, unhealthy) {
			return got, nil
		}
	}
	got, err := n.Ledger.Allocate(probe, w.Parts)
	n.Ledger.Release(probe)
	return got, err
}

func unhealthy(list []sharing.Device) bool {
	return slices.ContainsFunc(list, func(d sharing.Device) bool { return !d.Healthy })
}

// distinct gives each device once.
func distinct(lists [][]sharing.Device) []sharing.Device {
	var out []sharing.Device
	for _, list := range lists {
		for _, d := range list {
			if !slices.ContainsFunc(out, func(o sharing.Device) bool { return o.ID == d.ID }) {
				out = append(out, d)
			}
		}
	}
	return out
}
