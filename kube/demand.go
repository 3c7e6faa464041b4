package kube

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
)

// Spec describes a node to cluster.New, as StockOf does: its allocatable CPU and
// memory, and the GPUs that it publishes.
func Spec(node *v1.Node) cluster.Spec {
	n := readNode(node, nil, nil)
	return specOf(&n, node)
}

// Demand is what a pod asks of a node whose GPUs are divided as s says, as one
// request for package placement: the containers' requests are added up, and of
// several kinds of GPU request the largest kind counts: whole or shared GPUs,
// then memory, then MIG devices. It is good for scores; devices are chosen
// container by container.
func Demand(pod *v1.Pod, s gpu.Sharing) cluster.Request {
	r := nodeRequest(pod)
	want := Request(pod)
	replicas := int32(max(1, s.Replicas[api.ResourceGPU]))
	switch {
	case want[api.ResourceGPU]+want[api.ResourceGPUShared] > 0:
		r.GPUs = int32(min(want[api.ResourceGPU]+want[api.ResourceGPUShared], 127))
		r.MilliGPU = max(1, cluster.Whole/replicas)
	case want[api.ResourceGPUMemory] > 0:
		r.GPUs, r.GPUMemoryBytes = 1, min(want[api.ResourceGPUMemory], 1<<20)*gib
	default:
		for _, name := range sortedKeys(want) {
			if profile, ok := strings.CutPrefix(strings.TrimSuffix(name, ".shared"), api.ResourceMIGPrefix); ok {
				r.GPUs, r.Profile = int32(min(want[name], 127)), strings.Replace(profile, ".me", "+me", 1)
				break
			}
		}
	}
	return r
}
