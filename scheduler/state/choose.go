package state

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/commit"
)

// Choose picks the devices of w for pod: those that are held for it, else those
// that named names, else what the ledger picks. The ledger is as before: the
// choice counts when the pod is on the node.
func (n *Ledger) Choose(pod *v1.Pod, w *Request, named map[string][]sharing.Named) (*allocation, error) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	got, err := n.pick(pod, w, named)
	if err != nil {
		return nil, err
	}
	c := &allocation{pod: pod, Node: n.object.Name, parts: w.Parts, Named: make(map[string][]sharing.Named, len(w.Parts)), Devices: distinct(got)}
	for i := range w.Parts {
		c.Named[w.Parts[i].Name] = sharing.NamedOf(got[i])
	}
	c.Annotation, err = commit.Commitment(w.Parts, got)
	return c, err
}

// pick is choose before what is chosen is named, with mu held.
func (n *Ledger) pick(pod *v1.Pod, w *Request, named map[string][]sharing.Named) ([][]sharing.Device, error) {
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
		got, err := n.Ledger.Commit(probe, w.Parts, named)
		n.Ledger.Release(probe)
		if err == nil && !slices.ContainsFunc(got, unhealthy) {
			return got, nil
		}
	}
	got, err := n.Ledger.Allocate(probe, w.Parts)
	n.Ledger.Release(probe)
	return got, err
}

func unhealthy(list []sharing.Device) bool {
	return slices.ContainsFunc(list, func(d sharing.Device) bool { return !d.Healthy })
}
