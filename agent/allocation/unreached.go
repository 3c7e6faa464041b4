package allocation

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube"
)

// tellUnreached tells the users of pods with committed devices that the kubelet
// will never ask for: of containers whose shares are only in annotations, as
// KAI's, or in resources that this node does not serve. Such a container starts
// without its GPU, and nothing else would say so. n.mu is not held.
func (n *Node) tellUnreached(pods []*v1.Pod) {
	n.mu.Lock()
	served := n.offers
	known := n.unreached
	n.mu.Unlock()
	if len(served) == 0 {
		return
	}
	here := map[string]bool{}
	for _, pod := range pods {
		if _, committed := pod.Annotations[api.AnnotationDevices]; !committed || ended(pod) {
			continue
		}
		here[string(pod.UID)] = true
		if known[string(pod.UID)] {
			continue
		}
		named, err := kube.Committed(pod)
		if err != nil {
			continue // told when its containers start
		}
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			asks := false
			for name := range c.Resources.Limits {
				asks = asks || served[string(name)] != nil
			}
			if len(named[c.Name]) > 0 && !asks {
				n.o.Event(pod, v1.EventTypeWarning, "NoGPUGiven", fmt.Sprintf(
					"container %s runs without the GPU that is committed to it: it asks for it by none of the resources that this node serves (%s); ask for %s in its limits instead",
					c.Name, names(slices.Sorted(maps.Keys(served))), api.ResourceGPUMemory))
			}
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unreached = here
}
