package allocation

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// limitMemory has the driver limit a pod with shares by size to the memory that it
// holds, if it can: where the node has no cgroup v2, or the driver has no such
// limits, the pod starts without a limit and gets an event.
//
// The limit is on the pod's cgroup, for each GPU the sum of what its containers
// hold, and ends with the cgroup. It has not run on a driver that has such limits
// yet (nvmlDeviceSetMemoryLimits, CUDA 13.4): only with a fake one.
func (n *Node) limitMemory(ctx context.Context, pod *v1.Pod) {
	uid := string(pod.UID)
	n.mu.Lock()
	sums := n.ledger.WithoutLimit(uid)
	n.mu.Unlock()
	if n.o.SetMemoryLimit == nil || len(sums) == 0 {
		return
	}
	cgroup, err := n.unifiedCgroup(uid)
	for _, uuid := range slices.Sorted(maps.Keys(sums)) {
		if err == nil {
			err = n.o.SetMemoryLimit(ctx, uuid, cgroup, sums[uuid])
		}
		if err != nil {
			n.events.NoMemoryLimit(pod, uuid, sums[uuid], err)
			break
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ledger.SetLimited(uid)
}
