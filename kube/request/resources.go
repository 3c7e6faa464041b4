package request

import (
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/cluster"
)

// NodeResources is the CPU and memory that the scheduler counts for a pod: the
// sum over its containers and sidecars, or the greatest init container with the
// sidecars before it, and the overhead.
func NodeResources(pod *v1.Pod) cluster.Request {
	var sum, most [2]int64
	amounts := func(list v1.ResourceList) [2]int64 {
		return [2]int64{MilliAmount(list.Cpu(), MostMilli), Amount(list.Memory(), MostBytes)}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		for k, n := range amounts(c.Resources.Requests) {
			if IsSidecar(c) {
				sum[k] += n
			}
			if extra := n; !IsSidecar(c) {
				most[k] = max(most[k], sum[k]+extra)
			}
		}
	}
	for i := range pod.Spec.Containers {
		for k, n := range amounts(pod.Spec.Containers[i].Resources.Requests) {
			sum[k] += n
		}
	}
	over := amounts(pod.Spec.Overhead)
	return cluster.Request{CPUMilli: max(0, max(sum[0], most[0])+over[0]), MemoryBytes: max(0, max(sum[1], most[1])+over[1])}
}

// Footprint keeps of containers what says how much of a node they take: names, images,
// resources, ports, and which of them are sidecars. It returns nil for none.
func Footprint(list []v1.Container) []v1.Container {
	if len(list) == 0 {
		return nil
	}
	out := make([]v1.Container, len(list))
	for i := range list {
		c := &list[i]
		out[i] = v1.Container{Name: c.Name, Image: c.Image, Resources: c.Resources, Ports: c.Ports, RestartPolicy: c.RestartPolicy}
	}
	return out
}
