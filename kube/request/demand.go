package request

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

// Demand is what a pod asks of a node whose GPUs are divided as s says, as one
// request for package placement. It is never more than the pod needs, so that a
// node which cannot meet it cannot take the pod; devices are chosen container by
// container. Of several kinds of GPU request one counts: whole or shared GPUs,
// added up over the containers, then shares by size, then MIG devices. Of shares
// those of the most GPUs count, then the largest; of compute beside memory, the
// memory.
func Demand(pod *v1.Pod, s gpu.Sharing) cluster.Request {
	r := NodeResources(pod)
	want := Of(pod)
	replicas := int32(max(1, s.Replicas[api.ResourceGPU]))
	if n := want[api.ResourceGPU] + want[api.ResourceGPUShared]; n > 0 {
		r.GPUs, r.MilliGPU = int32(min(n, 127)), max(1, cluster.Whole/replicas)
		return r
	}
	if DemandShares(&r, pod) {
		return r
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if profile, ok := strings.CutPrefix(strings.TrimSuffix(name, ".shared"), api.ResourceMIGPrefix); ok {
			r.GPUs, r.Profile = int32(min(want[name], 127)), gpu.CanonicalProfile(profile)
			break
		}
	}
	return r
}

// DemandShares makes r ask for the largest shares by size that a pod asks for,
// and says whether there are any.
func DemandShares(r *cluster.Request, pod *v1.Pod) bool {
	var most sharing.ShareSize
	count := int64(0)
	for _, p := range Parts(pod) {
		for _, a := range p.Asks {
			size, n, ok := a.ShareOf()
			if ok && cmp.Or(cmp.Compare(n, count), cmp.Compare(size.MemoryMiB, most.MemoryMiB), cmp.Compare(size.MilliGPU, most.MilliGPU)) > 0 {
				most, count = size, n
			}
		}
	}
	if count == 0 {
		return false
	}
	r.GPUs = int32(min(count, 127))
	if most.MemoryMiB > 0 && most.MilliGPU < cluster.Whole {
		r.GPUMemoryBytes = min(most.MemoryMiB, 1<<30) << 20
	} else {
		r.MilliGPU = int32(min(max(most.MilliGPU, 1), cluster.Whole))
	}
	return true
}
