package state

import (
	"cmp"
	"iter"
	"maps"
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
	"berth.dev/berth/scheduler/queue"
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
	// Keeps reports whether the place of a pod is kept when its binding comes to
	// nothing; Answered is told first, and returns the name of its gang then.
	Keeps    func(types.UID) bool
	Answered func(uid types.UID, refused bool) (gang string)
}

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

// NewState returns the State of an empty cluster.
func NewState() *State {
	return &State{
		Nodes: map[string]*Ledger{}, Assumed: map[types.UID]*allocation{}, Doubtful: map[types.UID][]*allocation{}, Holds: map[types.UID]*Hold{},
		stale: map[string]bool{}, RetryAll: map[types.UID]bool{}, SharesToo: map[types.UID]bool{}, Waiting: queue.NewLines(), Gate: newGate(), Waits: queue.NewWaits(),
		binding: map[types.UID]*Hold{}, arrived: map[types.UID]bool{}, Keeps: func(types.UID) bool { return false }, Answered: func(types.UID, bool) string { return "" },
	}
}

// Node gives the devices of a node as they are in info.
func (d *State) Node(log klog.Logger, info fwk.NodeInfo) *Ledger {
	name := info.Node().Name
	d.Mu.Lock()
	defer d.Mu.Unlock()
	n := d.Nodes[name]
	if n != nil && n.generation == info.GetGeneration() && !n.stale {
		return n
	}
	if n != nil && d.follow(n, info) {
		return n
	}
	n = newLedger(info, d.bound(name, info), d.holdsOn(name), n)
	for _, err := range n.problems {
		log.V(2).Info("A pod's devices are not counted", "node", name, "reason", err.Error())
	}
	d.Nodes[name] = n
	return n
}

// follow brings n to what info shows, pod by pod, with mu held. It says no where
// something is not known exactly; then n is of no more use.
func (d *State) follow(n *Ledger, info fwk.NodeInfo) bool {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if n.Err != nil || !n.exact || !devices.SameAnnotations(n.object, info.Node()) {
		return false
	}
	name := n.object.Name
	if n.Ledger == nil {
		if holds := d.holdsOn(name); len(holds)+len(n.Holds) > 0 {
			n.take(holds)
			n.Version++
		}
		n.object, n.generation, n.stale = info.Node(), info.GetGeneration(), false
		return true
	}
	n.round++
	var come []*counted
	for pod := range podsOn(info) {
		c := n.Pods[pod.UID]
		if c == nil || c.Pod != pod {
			var ok bool
			if c, ok = d.meet(n, c, pod); !ok {
				return false
			}
			if c.asks && c.Devices == nil {
				come = append(come, c)
			}
		}
		c.round = n.round
	}
	changed := len(come) > 0
	for uid, c := range n.Pods {
		if c.round == n.round {
			continue
		}
		delete(n.Pods, uid)
		if c.asks {
			n.Ledger.Release(string(uid))
			changed = true
		}
	}
	holds := d.holdsOn(name)
	if changed || len(holds) > 0 || len(n.Holds) > 0 {
		n.take(nil)
		for _, c := range come {
			if !n.count(c) {
				return false
			}
		}
		n.take(holds)
		n.Version++
		clear(n.answers)
	}
	n.object, n.generation, n.stale = info.Node(), info.GetGeneration(), false
	return true
}

// meet takes a pod that is new on n, or that has changed; c is what was counted
// of it, or nil. It gives what counts now, without devices where it is to be
// counted anew, and no where its devices are not known exactly.
func (d *State) meet(n *Ledger, c *counted, pod *v1.Pod) (*counted, bool) {
	if c != nil && !c.asks {
		c.Pod = pod
		return c, true
	}
	if c == nil && request.Of(pod) == nil {
		c = &counted{Pod: pod}
		n.Pods[pod.UID] = c
		return c, true
	}
	note, assumed := pod.Annotations[api.AnnotationDevices], d.Assumed[pod.UID]
	if assumed != nil && assumed.Node != n.object.Name {
		assumed = nil
	}
	if note != "" {
		d.clear(pod.UID)
		if assumed != nil {
			delete(d.Assumed, pod.UID)
		}
	} else if assumed != nil {
		note = assumed.Annotation
	}
	switch {
	case note == "" || ended(pod):
		return nil, false
	case c != nil && c.note == note:
		c.Pod = pod
		return c, true
	case c != nil:
		return nil, false
	}
	c = &counted{Pod: pod, asks: true, note: note}
	if assumed != nil && assumed.Annotation == note {
		c.parts, c.named = assumed.parts, assumed.Named
	}
	n.Pods[pod.UID] = c
	return c, true
}

func ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// bound lists the pods of a node with what is assumed for them, with mu held. It
// forgets what info shows to be in the API by now.
func (d *State) bound(name string, info fwk.NodeInfo) []devices.Bound {
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
		if c := d.Assumed[pod.UID]; c != nil && c.Node == name {
			if b.Assumed = c.Named; committed(pod) {
				delete(d.Assumed, pod.UID)
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
func (d *State) holdsOn(name string) []*Hold {
	var out []*Hold
	for _, list := range d.Doubtful {
		for k, c := range list {
			if c.Node == name {
				out = append(out, &Hold{Pod: c.pod, Node: name, Named: c.Named, Parts: c.parts, Doubt: true, Taken: int64(k - len(list))})
			}
		}
	}
	for _, h := range d.Holds {
		if h.Node == name {
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b *Hold) int { return cmp.Or(cmp.Compare(a.Taken, b.Taken), cmp.Compare(a.Pod.UID, b.Pod.UID)) })
	return out
}

// MarkStale notes that what is known of a node is out of date although its NodeInfo
// has not changed, with mu held.
func (d *State) MarkStale(name string) {
	if n := d.Nodes[name]; n != nil {
		n.stale = true
	}
	d.stale[name] = true
}

func committed(pod *v1.Pod) bool {
	named, err := commit.Committed(pod)
	return named != nil && err == nil
}

// Assume keeps a choice until the API shows it. What was held for the pod is
// part of it from now on.
func (d *State) Assume(c *allocation) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.Assumed[c.pod.UID] = c
	d.useHold(c.pod.UID)
	delete(d.RetryAll, c.pod.UID)
	delete(d.SharesToo, c.pod.UID)
}

// Chosen gives the choice for a pod, or nil.
func (d *State) Chosen(uid types.UID) *allocation {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.Assumed[uid]
}

// useHold has what is held for a pod be part of what is reserved for it, with mu
// held.
func (d *State) useHold(uid types.UID) {
	if h := d.Holds[uid]; h != nil {
		d.binding[uid] = h
		d.DropHold(uid)
	}
}

// GiveUp drops the choice for a pod, unless its binding may have arrived. What
// was held for it is held again where its place is kept.
func (d *State) GiveUp(uid types.UID) {
	keeps := d.Keeps(uid)
	d.Mu.Lock()
	defer d.Mu.Unlock()
	c, h := d.Assumed[uid], d.binding[uid]
	delete(d.binding, uid)
	if c != nil {
		delete(d.Assumed, uid)
		d.MarkStale(c.Node)
	}
	switch {
	case c != nil && c.doubt:
		d.Doubtful[uid] = append(d.Doubtful[uid], c)
	case keeps && h != nil && d.Holds[uid] == nil:
		d.Holds[uid] = h
		d.MarkStale(h.Node)
	}
}

// Forget drops all about a pod that is gone, and says whether anything was held for
// it, or perhaps by it: those who wait are then to be called.
func (d *State) Forget(uid types.UID) (held bool) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if c := d.Assumed[uid]; c != nil {
		d.MarkStale(c.Node)
	}
	delete(d.Assumed, uid)
	delete(d.binding, uid)
	delete(d.RetryAll, uid)
	delete(d.SharesToo, uid)
	held = d.DropHold(uid)
	return d.clear(uid) || held
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
