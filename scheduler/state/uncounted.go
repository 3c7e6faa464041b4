package state

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
)

// Uncounted says whether a node that publishes no devices has enough for the pod:
// of each GPU resource as much as its kubelet says, less what its pods ask for.
// It is what NodeResourcesFit does, which leaves these resources to this plugin
// (see the profiles in package server), as they are counted device by device
// elsewhere, with what is held for pods that are still to come, unless the pod is
// one of them. Such a node gives no shares by size.
func (n *Ledger) Uncounted(pod *v1.Pod, w *Request, info fwk.NodeInfo) *fwk.Status {
	for i := range w.Parts {
		for _, a := range w.Parts[i].Asks {
			if _, _, share := a.ShareOf(); share && a.Resource != sharing.ResourceMemory {
				return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, w.Lacks())
			}
		}
	}
	node, used := info.Node(), map[string]int64{}
	for p := range podsOn(info) {
		for name, n := range request.Of(p) {
			used[name] += n
		}
	}
	if w.Hold == nil {
		n.addHeld(used, pod)
	}
	want := request.Of(pod)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		n := want[name]
		q := node.Status.Allocatable[v1.ResourceName(name)]
		have := request.Amount(&q, request.MostAsked)
		switch {
		case n > have:
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Insufficient "+name)
		case n > have-used[name]:
			return fwk.NewStatus(fwk.Unschedulable, "Insufficient "+name)
		}
	}
	return nil
}

// addHeld adds what is held here for others than pod to what is used, by resource.
func (n *Ledger) addHeld(used map[string]int64, pod *v1.Pod) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	for _, r := range n.Holds {
		if r.Pod.UID == pod.UID {
			continue // just taken, and the filters are asked whether it can be used
		}
		for name, n := range request.Of(r.Pod) {
			used[name] += n
		}
	}
}
