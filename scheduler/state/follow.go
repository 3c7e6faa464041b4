package state

import (
	"cmp"
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

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
	if c == nil && !request.AsksForGPUs(pod) {
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
	case note == "" || request.Ended(pod):
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

// bound lists the pods of a node with what is assumed for them, with mu held. It
// forgets what info shows to be in the API by now.
func (d *State) bound(name string, info fwk.NodeInfo) []devices.Bound {
	observed, err := commit.ObservedOn(info.Node())
	if err != nil {
		observed = nil // as good as none: the pods count by what they ask for
	}
	var out []devices.Bound
	for pod := range podsOn(info) {
		if !request.AsksForGPUs(pod) {
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
			b.Assumed = observed[string(pod.UID)]
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

func committed(pod *v1.Pod) bool {
	named, err := commit.Committed(pod)
	return named != nil && err == nil
}
