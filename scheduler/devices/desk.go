package devices

import (
	"cmp"
	"iter"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// desk keeps what has been chosen and is not in the API yet, and the ledger of
// each node as of one generation of its NodeInfo. All else comes from NodeInfos,
// so that a new scheduler starts with nothing and knows the same.
type desk struct {
	mu      sync.Mutex
	nodes   map[string]*node
	assumed map[types.UID]*choice
	// doubtful are bindings that were sent, and of which it is not known whether
	// they arrived. Their devices stay held until the pod's fate is seen.
	doubtful map[types.UID][]*choice
	holds    map[types.UID]*hold
	// spent are holds of pods that are being bound: where a gang keeps the place of
	// one whose binding comes to nothing, they are holds again.
	spent map[types.UID]*hold
	taken int64 // holds so far
	// touched are nodes where something of the above has changed since the world
	// was brought up to date: their NodeInfo does not tell.
	touched map[string]bool
	// arrived are pods of doubtful that the API shows where they were meant to be,
	// and NodeInfos perhaps not yet.
	arrived map[types.UID]bool
	// wide are pods whose one node a Filter refused: they are next tried on all.
	wide map[types.UID]bool
	// sharesToo are pods that no node with GPUs would take: they are next tried on
	// nodes with shares, too.
	sharesToo map[types.UID]bool
	score     scorer
	waiting   *waiting
	refused   *refusedRoom
	gate      gate // of bindings
	waits     *Waits
	// keeps says whether the place of a pod is kept when its binding comes to
	// nothing; answered is told first, and gives the name of its gang then.
	keeps    func(types.UID) bool
	answered func(uid types.UID, refused bool) (gang string)
}

// choice is the devices chosen for a pod.
type choice struct {
	pod        *v1.Pod
	node       string
	parts      []sharing.Part
	named      map[string][]sharing.Named
	devices    []sharing.Device // each once
	annotation string
	warning    string // to the user, when the pod is bound
	doubt      bool   // see desk.doubtful
}

func newDesk() *desk {
	return &desk{
		nodes: map[string]*node{}, assumed: map[types.UID]*choice{}, doubtful: map[types.UID][]*choice{}, holds: map[types.UID]*hold{},
		touched: map[string]bool{}, wide: map[types.UID]bool{}, sharesToo: map[types.UID]bool{}, waiting: newWaiting(), refused: newRefusedRoom(), gate: newGate(), waits: newWaits(),
		spent: map[types.UID]*hold{}, arrived: map[types.UID]bool{}, keeps: func(types.UID) bool { return false }, answered: func(types.UID, bool) string { return "" },
	}
}

// node gives the devices of a node as they are in info.
func (d *desk) node(log klog.Logger, info fwk.NodeInfo) *node {
	name := info.Node().Name
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nodes[name]
	if n != nil && n.generation == info.GetGeneration() && !n.stale {
		return n
	}
	if n != nil && d.follow(n, info) {
		return n
	}
	n = newNode(info, d.bound(name, info), d.holdsOn(name), n)
	for _, err := range n.problems {
		log.V(2).Info("A pod's devices are not counted", "node", name, "reason", err.Error())
	}
	d.nodes[name] = n
	return n
}

// follow brings n to what info shows, pod by pod, with mu held. It says no where
// something is not known exactly; then n is of no more use.
func (d *desk) follow(n *node, info fwk.NodeInfo) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil || !n.exact || !sameDevices(n.object, info.Node()) {
		return false
	}
	name := n.object.Name
	if n.ledger == nil {
		if holds := d.holdsOn(name); len(holds)+len(n.holds) > 0 {
			n.take(holds)
			n.version++
		}
		n.object, n.generation, n.stale = info.Node(), info.GetGeneration(), false
		return true
	}
	n.round++
	var come []*counted
	for pod := range podsOn(info) {
		c := n.pods[pod.UID]
		if c == nil || c.pod != pod {
			var ok bool
			if c, ok = d.meet(n, c, pod); !ok {
				return false
			}
			if c.asks && c.devices == nil {
				come = append(come, c)
			}
		}
		c.round = n.round
	}
	changed := len(come) > 0
	for uid, c := range n.pods {
		if c.round == n.round {
			continue
		}
		delete(n.pods, uid)
		if c.asks {
			n.ledger.Release(string(uid))
			changed = true
		}
	}
	holds := d.holdsOn(name)
	if changed || len(holds) > 0 || len(n.holds) > 0 {
		n.take(nil)
		for _, c := range come {
			if !n.count(c) {
				return false
			}
		}
		n.take(holds)
		n.version++
		clear(n.answers)
	}
	n.object, n.generation, n.stale = info.Node(), info.GetGeneration(), false
	return true
}

// meet takes a pod that is new on n, or that has changed; c is what was counted
// of it, or nil. It gives what counts now, without devices where it is to be
// counted anew, and no where its devices are not known exactly.
func (d *desk) meet(n *node, c *counted, pod *v1.Pod) (*counted, bool) {
	if c != nil && !c.asks {
		c.pod = pod
		return c, true
	}
	if c == nil && request.Of(pod) == nil {
		c = &counted{pod: pod}
		n.pods[pod.UID] = c
		return c, true
	}
	note, assumed := pod.Annotations[api.AnnotationDevices], d.assumed[pod.UID]
	if assumed != nil && assumed.node != n.object.Name {
		assumed = nil
	}
	if note != "" {
		d.clear(pod.UID)
		if assumed != nil {
			delete(d.assumed, pod.UID)
		}
	} else if assumed != nil {
		note = assumed.annotation
	}
	switch {
	case note == "" || ended(pod):
		return nil, false
	case c != nil && c.note == note:
		c.pod = pod
		return c, true
	case c != nil:
		return nil, false
	}
	c = &counted{pod: pod, asks: true, note: note}
	if assumed != nil && assumed.annotation == note {
		c.parts, c.named = assumed.parts, assumed.named
	}
	n.pods[pod.UID] = c
	return c, true
}

func ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// bound lists the pods of a node with what is assumed for them, with mu held. It
// forgets what info shows to be in the API by now.
func (d *desk) bound(name string, info fwk.NodeInfo) []devices.Bound {
	told, err := commit.ObservedOn(info.Node())
	if err != nil {
		told = nil // as good as none: the pods count by what they ask for
	}
	var out []devices.Bound
	for pod := range podsOn(info) {
		if request.Of(pod) == nil {
			continue
		}
		b := devices.Bound{Pod: pod}
		if c := d.assumed[pod.UID]; c != nil && c.node == name {
			if b.Assumed = c.named; committed(pod) {
				delete(d.assumed, pod.UID)
			}
		}
		if committed(pod) {
			d.clear(pod.UID)
		} else if b.Assumed == nil {
			b.Assumed = told[string(pod.UID)]
		}
		out = append(out, b)
	}
	return out
}

// podsOn lists the pods that info shows on its node, assumed ones too. Pods that are
// only nominated for it, which the framework adds to the NodeInfo that it asks
// Filter about, are left out: what is kept for them are their holds, and counted
// beside those they would take the devices of their holds from one another.
func podsOn(info fwk.NodeInfo) iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		for _, pi := range info.GetPods() {
			if pod := pi.GetPod(); pod.Spec.NodeName != "" && !yield(pod) {
				return
			}
		}
	}
}

// holdsOn lists what is held on a node, with mu held: first what bindings of
// unknown fate may bring, then holds by when they were taken.
func (d *desk) holdsOn(name string) []*hold {
	var out []*hold
	for _, list := range d.doubtful {
		for k, c := range list {
			if c.node == name {
				out = append(out, &hold{pod: c.pod, node: name, named: c.named, parts: c.parts, doubt: true, taken: int64(k - len(list))})
			}
		}
	}
	for _, h := range d.holds {
		if h.node == name {
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b *hold) int { return cmp.Or(cmp.Compare(a.taken, b.taken), cmp.Compare(a.pod.UID, b.pod.UID)) })
	return out
}

// touch notes that what is known of a node is out of date although its NodeInfo
// has not changed, with mu held.
func (d *desk) touch(name string) {
	if n := d.nodes[name]; n != nil {
		n.stale = true
	}
	d.touched[name] = true
}

func committed(pod *v1.Pod) bool {
	named, err := commit.Committed(pod)
	return named != nil && err == nil
}

// assume keeps a choice until the API shows it. What was held for the pod is
// part of it from now on.
func (d *desk) assume(c *choice) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.assumed[c.pod.UID] = c
	d.spend(c.pod.UID)
	delete(d.wide, c.pod.UID)
	delete(d.sharesToo, c.pod.UID)
}

// chosen gives the choice for a pod, or nil.
func (d *desk) chosen(uid types.UID) *choice {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.assumed[uid]
}

// spend has what is held for a pod be part of what is reserved for it, with mu
// held.
func (d *desk) spend(uid types.UID) {
	if h := d.holds[uid]; h != nil {
		d.spent[uid] = h
		d.dropHold(uid)
	}
}

// giveUp drops the choice for a pod, unless its binding may have arrived. What
// was held for it is held again where its place is kept.
func (d *desk) giveUp(uid types.UID) {
	keeps := d.keeps(uid)
	d.mu.Lock()
	defer d.mu.Unlock()
	c, h := d.assumed[uid], d.spent[uid]
	delete(d.spent, uid)
	if c != nil {
		delete(d.assumed, uid)
		d.touch(c.node)
	}
	switch {
	case c != nil && c.doubt:
		d.doubtful[uid] = append(d.doubtful[uid], c)
	case keeps && h != nil && d.holds[uid] == nil:
		d.holds[uid] = h
		d.touch(h.node)
	}
}

// forget drops all about a pod that is gone, and says whether anything was held for
// it, or perhaps by it: those who wait are then to be called.
func (d *desk) forget(uid types.UID) (held bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.assumed[uid]; c != nil {
		d.touch(c.node)
	}
	delete(d.assumed, uid)
	delete(d.spent, uid)
	delete(d.wide, uid)
	delete(d.sharesToo, uid)
	held = d.dropHold(uid)
	return d.clear(uid) || held
}
