package allocation

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/sharing"
)

// limit has the driver keep a pod with shares by size to the memory that it
// holds. It is done as well as it can be: where the node has no cgroup v2 or the
// driver cannot, the pod starts without a limit and its users are told.
//
// The limit is on the pod's cgroup, for each GPU the sum of what its containers
// hold, and goes with the cgroup. Not yet run on a driver that has such limits
// (nvmlDeviceSetMemoryLimits, CUDA 13.4): only with a stand-in.
func (n *Node) limit(ctx context.Context, pod *v1.Pod) {
	sums := n.unlimited(string(pod.UID))
	if n.o.SetMemoryLimit == nil || len(sums) == 0 {
		return
	}
	cgroup, err := n.unifiedCgroup(string(pod.UID))
	for _, uuid := range slices.Sorted(maps.Keys(sums)) {
		if err == nil {
			err = n.o.SetMemoryLimit(ctx, uuid, cgroup, sums[uuid])
		}
		if err != nil {
			n.o.Event(pod, v1.EventTypeNormal, "NoMemoryLimit",
				fmt.Sprintf("nothing keeps the pod to its %d MiB of GPU %s: %v", sums[uuid]>>20, uuid, err))
			break
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.records[string(pod.UID)]; r != nil {
		r.limited = true
	}
}

// unlimited sums what a pod holds by size, by GPU: nothing for one whose limits
// have been set, or that has been told that they cannot be.
func (n *Node) unlimited(uid string) map[string]int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.records[uid]
	if r == nil || r.limited {
		return nil
	}
	sums := map[string]int64{}
	for _, d := range r.devices() {
		if d.Resource == sharing.ResourceMemory {
			sums[d.UUID] += d.MemoryBytes
		}
	}
	return sums
}
