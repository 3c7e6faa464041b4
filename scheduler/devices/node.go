package devices

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

// node is the devices of one node at one generation of its NodeInfo. It follows
// the NodeInfo pod by pod as long as every pod's devices are known exactly; else
// it is made anew.
type node struct {
	generation int64
	stale      bool // what is assumed or held here has changed since
	exact      bool // every pod holds what its annotation or the desk names
	round      int  // times that it has followed
	version    int  // times that what is held here has changed

	// The fields above are guarded by desk.mu, those below by mu, which is taken
	// after it.

	mu       sync.Mutex
	object   *v1.Node
	err      error   // its annotations cannot be read
	problems []error // pods that could not be counted
	gpus     []gpu.GPU
	sharing  gpu.Sharing
	ledger   *sharing.Ledger // nil: the node publishes no devices
	empty    *sharing.Ledger // the same with nothing held; made when it is needed
	pods     map[types.UID]*counted
	holds    []*reserved
	answers  map[string]answer // by shape
}

// counted is one pod on a node, as it was counted.
type counted struct {
	pod     *v1.Pod
	asks    bool             // for devices
	note    string           // the annotation, or what it will be
	devices []sharing.Device // each once
	round   int

	parts []sharing.Part             // what it asks for; nil is not read yet
	named map[string][]sharing.Named // what note says; nil is not read yet
}

// reserved is a hold as far as its devices are free.
type reserved struct {
	*hold
	devices []sharing.Device
	missing int // devices that somebody still has
}

// answer says whether a request fits a node.
type answer uint8

const (
	fits    answer = iota
	full           // not now; it would if pods left
	never          // not if it were empty either
	tooMany        // it asks for several shares where the node gives one only
	soon           // what is held for it is not free yet
)

// newNode counts pods on a node. Its annotations are read only where they are
// not those of old, the node before, which may be nil.
func newNode(info fwk.NodeInfo, pods []devices.Bound, holds []*hold, old *node) *node {
	n := &node{
		generation: info.GetGeneration(), object: info.Node(), answers: map[string]answer{},
		pods: make(map[types.UID]*counted, len(pods)), exact: true,
	}
	if old != nil {
		n.version = old.version + 1
	}
	if old != nil && old.err == nil && sameDevices(n.object, old.object) {
		n.gpus, n.sharing = old.gpus, old.sharing
	} else {
		n.gpus, n.sharing, n.err = devices.GPUs(n.object)
	}
	if n.err != nil || len(n.gpus) == 0 {
		n.take(holds)
		return n
	}
	if n.ledger, n.problems, n.err = devices.LedgerOf(n.gpus, n.sharing, pods); n.err != nil {
		n.err = fmt.Errorf("node %s: %w", n.object.Name, n.err)
		return n
	}
	for _, b := range pods {
		c := &counted{pod: b.Pod, asks: true, note: b.Pod.Annotations[api.AnnotationDevices]}
		n.exact = n.exact && (c.note != "" || b.Assumed != nil)
		n.pods[b.Pod.UID] = c
	}
	n.exact = n.exact && len(n.problems) == 0
	for _, h := range n.ledger.Held() { // sorted
		if c := n.pods[types.UID(h.Owner)]; c != nil {
			c.devices = append(c.devices, h.Device)
		}
	}
	n.take(holds)
	return n
}

// sameDevices says whether two versions of a node offer the same devices.
func sameDevices(a, b *v1.Node) bool {
	return a == b || a.Annotations[api.AnnotationInventory] == b.Annotations[api.AnnotationInventory] &&
		a.Annotations[api.AnnotationPluginConfig] == b.Annotations[api.AnnotationPluginConfig]
}

// count counts a pod whose devices its note names, with mu held, and says
// whether it could be.
func (n *node) count(c *counted) bool {
	if c.named == nil {
		var err error
		if c.named, err = commit.ParseCommitment(c.note); err != nil {
			return false
		}
	}
	if c.parts == nil {
		c.parts = request.Parts(c.pod)
	}
	got, err := n.ledger.Commit(string(c.pod.UID), c.parts, c.named)
	if err != nil {
		return false
	}
	c.devices = distinct(got)
	return true
}

// take gives to holds those of their devices that are free.
func (n *node) take(holds []*hold) {
	for _, r := range n.holds {
		n.let(r)
	}
	n.holds = nil
	for _, h := range holds {
		r := &reserved{hold: h}
		n.keep(r)
		n.holds = append(n.holds, r)
	}
}

// keep takes the devices of a hold one by one. A device that an init container
// hands on is named twice and taken once.
func (n *node) keep(r *reserved) {
	if r.devices, r.missing = nil, 0; n.ledger == nil {
		return
	}
	done := map[sharing.Named]int{}
	for i := range r.parts {
		p, seen := &r.parts[i], map[sharing.Named]int{}
		k := 0
		for _, a := range p.Asks {
			left := units(a)
			if _, _, share := a.ShareOf(); !share || a.Share != (sharing.ShareSize{}) {
				a.Count = 1
			}
			for ; left > 0 && k < len(r.named[p.Name]); left-- {
				want := r.named[p.Name][k]
				k++
				if seen[want]++; seen[want] <= done[want] {
					continue
				}
				got, err := n.ledger.Commit(r.owner(r.missing+len(r.devices)), []sharing.Part{{Name: p.Name, Asks: []sharing.Ask{a}}},
					map[string][]sharing.Named{p.Name: {want}})
				if err != nil {
					r.missing++
					continue
				}
				r.devices = append(r.devices, got[0]...)
			}
		}
		for want, times := range seen {
			done[want] = max(done[want], times)
		}
	}
}

// let gives the devices of a hold back.
func (n *node) let(r *reserved) {
	for k := range r.missing + len(r.devices) { // none without a ledger
		n.ledger.Release(r.owner(k))
	}
}

// owner is who holds the k-th device of a hold, to a ledger.
func (r *reserved) owner(k int) string {
	if r.doubt {
		return fmt.Sprintf("doubt/%s/%d/%d", r.pod.UID, -r.taken, k)
	}
	return fmt.Sprintf("hold/%s/%d", r.pod.UID, k)
}

// heldFor gives what is held here for a pod, or nil; with doubt what a binding of
// it may bring.
func (n *node) heldFor(uid types.UID, doubt bool) *reserved {
	for _, r := range n.holds {
		if r.pod.UID == uid && r.doubt == doubt {
			return r
		}
	}
	return nil
}

// fit says whether w fits for pod. Each shape is asked once as long as nothing
// changes here.
func (n *node) fit(pod *v1.Pod, w *wanted) answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.heldFor(pod.UID, false); r != nil {
		if _, err := n.tryHeld(r, w); err != nil {
			return soon
		}
		return fits
	}
	if r := n.heldFor(pod.UID, true); r != nil { // it may have the same again
		n.let(r)
		err := tries(n.ledger, w)
		n.keep(r)
		if err == nil {
			return fits
		}
	}
	a, known := n.answers[w.shape]
	if known {
		return a
	}
	var several *sharing.TooManyShares
	switch err := tries(n.ledger, w); {
	case err == nil:
		a = fits
	case errors.As(err, &several), errors.As(n.triesEmpty(w), &several):
		a = tooMany
	case n.triesEmpty(w) == nil:
		a = full
	default:
		a = never
	}
	n.answers[w.shape] = a
	return a
}

// tryHeld says whether w can have the devices held for it now, and which.
func (n *node) tryHeld(r *reserved, w *wanted) ([][]sharing.Device, error) {
	n.let(r)
	defer n.keep(r)
	got, err := n.ledger.Commit(trial, w.parts, r.named)
	n.ledger.Release(trial)
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
func (n *node) triesEmpty(w *wanted) error {
	if n.empty == nil {
		var err error
		if n.empty, _, err = devices.LedgerOf(n.gpus, n.sharing, nil); err != nil {
			return err
		}
	}
	return tries(n.empty, w)
}

const trial = "trial"

// tries says why w does not fit, or nil, and leaves l as it was.
func tries(l *sharing.Ledger, w *wanted) error {
	_, err := l.Allocate(trial, w.parts)
	l.Release(trial)
	return err
}

// choose picks the devices of w for pod: those that are held for it, else those
// that named names, else what the ledger picks. The ledger is as before: the
// choice counts when the pod is on the node.
func (n *node) choose(pod *v1.Pod, w *wanted, named map[string][]sharing.Named) (*choice, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	got, err := n.pick(pod, w, named)
	if err != nil {
		return nil, err
	}
	c := &choice{pod: pod, node: n.object.Name, parts: w.parts, named: make(map[string][]sharing.Named, len(w.parts)), devices: distinct(got)}
	for i := range w.parts {
		c.named[w.parts[i].Name] = sharing.NamedOf(got[i])
	}
	c.annotation, err = commit.Commitment(w.parts, got)
	return c, err
}

// pick is choose before what is chosen is named, with mu held.
func (n *node) pick(pod *v1.Pod, w *wanted, named map[string][]sharing.Named) ([][]sharing.Device, error) {
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
		got, err := n.ledger.Commit(trial, w.parts, named)
		n.ledger.Release(trial)
		if err == nil && !slices.ContainsFunc(got, unhealthy) {
			return got, nil
		}
	}
	got, err := n.ledger.Allocate(trial, w.parts)
	n.ledger.Release(trial)
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
