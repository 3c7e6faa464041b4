package devices

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// doubted says whether a binding of a pod may still be on its way.
func (d *desk) doubted(uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.doubtful[uid] != nil
}

// doubts notes that it is not known whether the binding of a pod arrived.
func (d *desk) doubts(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.assumed[uid]; c != nil {
		c.doubt = true
	}
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
// has it. It says whether there was a doubt, of which more is known now.
func (d *desk) saw(pod *v1.Pod) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.spent, pod.UID)
	if slices.ContainsFunc(d.doubtful[pod.UID], func(c *choice) bool { return c.node == pod.Spec.NodeName }) {
		known := d.arrived[pod.UID]
		d.arrived[pod.UID] = true
		return !known
	}
	return d.clear(pod.UID)
}

// inDoubt says whether it is not known of a pod whether it was bound.
func (d *desk) inDoubt() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.doubtful) > 0
}

// behind says whether a binding has arrived that was in doubt, and NodeInfos do not
// show it yet.
func (d *desk) behind() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.arrived) > 0
}

// resolved calls those who may have what was held or in doubt until now.
func (d *desk) resolved() {
	d.waiting.wake()
	for _, pod := range d.refused.which(func(o obstacles) bool { return o.doubt }) {
		d.waiting.call(pod)
	}
}

// clear drops the doubt about a pod, with mu held, and says whether there was any.
func (d *desk) clear(uid types.UID) bool {
	had := d.doubtful[uid]
	for _, c := range had {
		d.touch(c.node)
	}
	delete(d.doubtful, uid)
	delete(d.arrived, uid)
	return len(had) > 0
}
