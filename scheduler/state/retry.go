package state

import "k8s.io/apimachinery/pkg/types"

// TakeSharesToo says whether a pod is to be tried on nodes with shares, too, once.
func (d *State) TakeSharesToo(uid types.UID) bool {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	too := d.SharesToo[uid]
	delete(d.SharesToo, uid)
	return too
}

// TakeRetryAll says whether a pod is to be tried on all nodes now, once.
func (d *State) TakeRetryAll(uid types.UID) bool {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if !d.RetryAll[uid] {
		return false
	}
	delete(d.RetryAll, uid)
	return true
}

// Reserved notes that a pod for which no devices are chosen has its node.
func (d *State) Reserved(uid types.UID) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.useHold(uid)
	delete(d.RetryAll, uid)
}
