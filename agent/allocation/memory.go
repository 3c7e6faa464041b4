package allocation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	cgroup, err := n.cgroup(string(pod.UID))
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

// cgroup finds the cgroup of a pod, as both of the kubelet's drivers name it, in
// each class of service; below the root or one folder deeper, where the kubelet
// may be told to keep its own.
func (n *Node) cgroup(uid string) (string, error) {
	if _, err := os.Stat(filepath.Join(n.o.CgroupRoot, "cgroup.controllers")); err != nil {
		return "", errors.New("the node has no cgroup v2")
	}
	under := strings.ReplaceAll(uid, "-", "_")
	for _, path := range []string{
		"kubepods/pod" + uid, "kubepods/burstable/pod" + uid, "kubepods/besteffort/pod" + uid,
		"kubepods.slice/kubepods-pod" + under + ".slice",
		"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + under + ".slice",
		"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + under + ".slice",
	} {
		for _, prefix := range []string{"", "*"} {
			found, err := filepath.Glob(filepath.Join(n.o.CgroupRoot, prefix, path))
			if err == nil && len(found) > 0 {
				return found[0], nil
			}
		}
	}
	return "", fmt.Errorf("no cgroup of pod %s below %s", uid, n.o.CgroupRoot)
}
