package request

import (
	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"berth.dev/berth/core/usage"
)

// Room is the CPU and memory that a pod takes of its node.
func Room(pod *v1.Pod) usage.Room {
	return RoomIn(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}))
}

// RoomIn is the CPU and memory in a list of resources.
func RoomIn(list v1.ResourceList) usage.Room {
	return usage.Room{MilliCPU: list.Cpu().MilliValue(), MemoryBytes: list.Memory().Value()}
}
