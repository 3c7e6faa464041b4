package devices

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube"
)

// uncounted says whether a node that publishes no devices has enough for the pod:
// of each GPU resource as much as its kubelet says, less what its pods ask for.
// It is what NodeResourcesFit does, which leaves these resources to this plugin
// (see the profiles in package server), as they are counted device by device
// elsewhere. Such a node gives no shares by size.
func uncounted(pod *v1.Pod, w *wanted, info fwk.NodeInfo) *fwk.Status {
	for i := range w.parts {
		for _, a := range w.parts[i].Asks {
			if _, _, share := a.ShareOf(); share && a.Resource != sharing.ResourceMemory {
				return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, w.lacks())
			}
		}
	}
	node, used := info.Node(), map[string]int64{}
	for _, p := range info.GetPods() {
		for name, n := range kube.Request(p.GetPod()) {
			used[name] += n
		}
	}
	want := kube.Request(pod)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		n := want[name]
		have := node.Status.Allocatable[v1.ResourceName(name)]
		switch {
		case n > have.Value():
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Insufficient "+name)
		case n > have.Value()-used[name]:
			return fwk.NewStatus(fwk.Unschedulable, "Insufficient "+name)
		}
	}
	return nil
}
