package state

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Doubted says whether a binding of a pod may still be on its way.
func (d *State) Doubted(uid types.UID) bool {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.Doubtful[uid] != nil
}

// Doubts notes that it is not known whether the binding of a pod arrived.
func (d *State) Doubts(uid types.UID) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if c := d.Assumed[uid]; c != nil {
		c.doubt = true
	}
}

// Settled notes that a pod was bound by the last binding that was sent: no
// earlier one can arrive any more. It reports whether there was a doubt: others may have waited for its end.
func (d *State) Settled(uid types.UID) bool {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.clear(uid)
}

// Saw takes a pod as the API has it now: one that is bound elsewhere settles the
// doubt. One that is bound where it was meant to be is settled when its NodeInfo
// has it. It says whether there was a doubt, of which more is known now.
func (d *State) Saw(pod *v1.Pod) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	delete(d.binding, pod.UID)
	if slices.ContainsFunc(d.Doubtful[pod.UID], func(c *allocation) bool { return c.Node == pod.Spec.NodeName }) {
		known := d.arrived[pod.UID]
		d.arrived[pod.UID] = true
		return !known
	}
	return d.clear(pod.UID)
}

// InDoubt says whether it is not known of a pod whether it was bound.
func (d *State) InDoubt() bool {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return len(d.Doubtful) > 0
}

// Behind says whether a binding has arrived that was in doubt, and NodeInfos do not
// show it yet.
func (d *State) Behind() bool {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return len(d.arrived) > 0
}

// clear drops the doubt about a pod, with mu held, and says whether there was any.
func (d *State) clear(uid types.UID) bool {
	had := d.Doubtful[uid]
	for _, c := range had {
		d.MarkStale(c.Node)
	}
	delete(d.Doubtful, uid)
	delete(d.arrived, uid)
	return len(had) > 0
}
