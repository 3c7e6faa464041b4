package state

import "k8s.io/apimachinery/pkg/types"

// Release gives up what is held for a pod, and calls those who wait for it. It
// says whether there was anything. It may be called at any time, but not with mu
// held, nor from where the scheduling queue calls a plugin.
func (d *State) Release(uid types.UID) bool {
	d.Mu.Lock()
	had := d.DropHold(uid)
	d.Mu.Unlock()
	if had {
		d.Waiting.Wake()
	}
	return had
}

// Withdraw gives up what is held for a pod without calling anybody: what was taken
// in this scheduling cycle has kept nobody from anything.
func (d *State) Withdraw(uid types.UID) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.DropHold(uid)
}

// DropHold is release with mu held, and calls nobody.
func (d *State) DropHold(uid types.UID) bool {
	h := d.Holds[uid]
	if h == nil {
		return false
	}
	delete(d.Holds, uid)
	d.MarkStale(h.Node)
	return true
}
