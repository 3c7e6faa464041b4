package request

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/sharing"
)

// Simple reports whether one cluster.Request describes all that a pod needs whose containers
// ask for parts. Every plugin of kube-scheduler has to look at other pods on every node.
func Simple(pod *v1.Pod, parts []sharing.Part) bool { return OneKind(parts) && !others(pod) }

// OneKind reports whether one cluster.Request is exactly what parts ask for: GPUs, or MIG
// devices of one profile, or one share.
func OneKind(parts []sharing.Part) bool {
	asks, first := 0, sharing.Ask{}
	for i := range parts {
		for _, a := range parts[i].Asks {
			if asks++; asks == 1 {
				first = a
			}
			if a.Resource != first.Resource || a.LeastGiB != first.LeastGiB || a.Share != first.Share || a.LeastGiB > 0 && asks > 1 {
				return false
			}
		}
	}
	if size, _, share := first.ShareOf(); share {
		return asks == 1 && (size.MilliGPU == 0 || size.MemoryMiB == 0)
	}
	return asks == 0 || !strings.HasSuffix(first.Resource, ".shared") || first.Resource == api.ResourceGPUShared
}

// others reports whether a pod needs what only kube-scheduler's own plugins know:
// other pods, volumes, host ports, claims, or resources of the pod as a whole.
func others(pod *v1.Pod) bool {
	spec := &pod.Spec
	if a := spec.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) {
		return true
	}
	if len(spec.TopologySpreadConstraints) > 0 || len(spec.ResourceClaims) > 0 || spec.Resources != nil {
		return true
	}
	for i := range spec.Volumes {
		switch v := &spec.Volumes[i].VolumeSource; {
		case v.ConfigMap != nil, v.Secret != nil, v.EmptyDir != nil, v.Projected != nil, v.DownwardAPI != nil, v.HostPath != nil, v.NFS != nil, v.Image != nil:
		default:
			return true
		}
	}
	for _, list := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			for _, port := range list[i].Ports {
				if port.HostPort > 0 {
					return true
				}
			}
		}
	}
	return false
}
