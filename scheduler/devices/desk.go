package devices

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube"
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
	doubtful map[types.UID]*choice
	holds    map[types.UID]*hold
	score    scorer
}

// choice is the devices chosen for a pod.
type choice struct {
	pod        *v1.Pod
	node       string
	named      map[string][]sharing.Named
	annotation string
	doubt      bool // see desk.doubtful
}

func newDesk() *desk {
	return &desk{
		nodes: map[string]*node{}, assumed: map[types.UID]*choice{}, doubtful: map[types.UID]*choice{}, holds: map[types.UID]*hold{},
	}
}

// node gives the devices of a node as they are in info.
func (d *desk) node(log klog.Logger, info fwk.NodeInfo) *node {
	name := info.Node().Name
	d.mu.Lock()
	n := d.nodes[name]
	if n != nil && n.generation == info.GetGeneration() {
		d.mu.Unlock()
		return n
	}
	pods, old := d.bound(name, info), n
	d.mu.Unlock()
	n = newNode(info, pods, old)
	for _, err := range n.problems {
		log.V(2).Info("A pod's devices are not counted", "node", name, "reason", err.Error())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes[name] = n
	return n
}

// bound lists the pods of a node with what is assumed for them, with mu held. It
// forgets what info shows to be in the API by now.
func (d *desk) bound(name string, info fwk.NodeInfo) []kube.Bound {
	var out []kube.Bound
	there := map[types.UID]bool{}
	for _, pi := range info.GetPods() {
		pod := pi.GetPod()
		if kube.Request(pod) == nil {
			continue
		}
		there[pod.UID] = true
		b := kube.Bound{Pod: pod}
		if c := d.assumed[pod.UID]; c != nil && c.node == name {
			if b.Assumed = c.named; committed(pod) {
				delete(d.assumed, pod.UID)
			}
		}
		if c := d.doubtful[pod.UID]; c != nil && committed(pod) {
			delete(d.doubtful, pod.UID)
		}
		out = append(out, b)
	}
	for uid, c := range d.doubtful {
		if c.node == name && !there[uid] {
			out = append(out, kube.Bound{Pod: c.pod, Assumed: c.named})
		}
	}
	return out
}

func committed(pod *v1.Pod) bool {
	named, err := kube.Committed(pod)
	return named != nil && err == nil
}

// assume keeps a choice until the API shows it.
func (d *desk) assume(c *choice) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.assumed[c.pod.UID] = c
}

// chosen gives the choice for a pod, or nil.
func (d *desk) chosen(uid types.UID) *choice {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.assumed[uid]
}

// doubts notes that it is not known whether the binding of a pod arrived.
func (d *desk) doubts(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.assumed[uid]; c != nil {
		c.doubt = true
	}
}

// giveUp drops the choice for a pod, unless its binding may have arrived.
func (d *desk) giveUp(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.assumed[uid]
	if c == nil {
		return
	}
	delete(d.assumed, uid)
	if c.doubt {
		d.doubtful[uid] = c
	}
	delete(d.nodes, c.node)
}

// settled notes that a pod was bound by the last binding that was sent: no
// earlier one can arrive any more.
func (d *desk) settled(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear(uid)
}

// saw takes a pod as the API has it now: one that is bound elsewhere settles the
// doubt. One that is bound where it was meant to be is settled when its NodeInfo
// has it.
func (d *desk) saw(pod *v1.Pod) {
	if pod.Spec.NodeName == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.doubtful[pod.UID]; c != nil && c.node != pod.Spec.NodeName {
		d.clear(pod.UID)
	}
}

// forget drops all about a pod that is gone.
func (d *desk) forget(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.assumed, uid)
	d.dropHold(uid)
	d.clear(uid)
}

// clear drops the doubt about a pod, with mu held.
func (d *desk) clear(uid types.UID) {
	if c := d.doubtful[uid]; c != nil {
		delete(d.doubtful, uid)
		delete(d.nodes, c.node)
	}
}
