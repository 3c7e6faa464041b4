package state

import (
	"k8s.io/apimachinery/pkg/types"
)

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
