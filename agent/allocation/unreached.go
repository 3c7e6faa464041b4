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
	here := map[string]bool{}
	for _, pod := range pods {
		uid := string(pod.UID)
		here[uid] = true
		n.mu.Lock()
		done := n.unreached[uid] || n.ledger == nil || ended(pod)
		served := n.offers
		n.mu.Unlock()
		if done {
			continue
		}
		named, err := kube.Committed(pod)
		if err != nil {
			continue // said when its containers start
		}
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			asks := false
			for name := range c.Resources.Limits {
				asks = asks || served[string(name)] != nil
			}
			if len(named[c.Name]) == 0 || asks {
				continue
			}
			n.o.Event(pod, v1.EventTypeWarning, "NoGPUGiven", fmt.Sprintf(
				"container %s runs without the GPU that is committed to it: it asks for it by none of the resources that this node serves (%s); ask for %s in its limits instead",
				c.Name, names(slices.Sorted(maps.Keys(served))), api.ResourceGPUMemory))
			n.mu.Lock()
			n.unreached[uid] = true
			n.mu.Unlock()
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.unreached, func(uid string, _ bool) bool { return !here[uid] })
}
