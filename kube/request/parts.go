package request

import (
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/sharing"
)

// Parts lists the containers of a pod that ask for GPUs, with what they ask for,
// in the order in which they start. GPU memory beside nvidia.com/gpu asks for
// whole GPUs with at least that memory. Shares in the spelling of KAI, HAMi and
// Volcano are asks with a size; see Check for those that cannot be read.
func Parts(pod *v1.Pod) []sharing.Part {
	var out []sharing.Part
	add := func(c *v1.Container, handsOn bool) {
		if asks := containerAsks(pod, c); len(asks) > 0 {
			out = append(out, sharing.Part{Name: c.Name, HandsOn: handsOn, Asks: asks})
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		add(c, !IsSidecar(c))
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i], false)
	}
	return out
}
