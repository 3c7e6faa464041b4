package notice

import (
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/commit"
)

// Unserved sends an event about each pod with committed devices that the kubelet
// will never ask for: its shares are only in annotations, as with KAI, or in
// resources that this node does not serve. Such a container starts without its
// GPU, and nothing else would say so.
//
// It is safe for concurrent use, and its zero value has seen no pod.
type Unserved struct {
	mu   sync.Mutex
	seen map[string]bool // guarded by mu: pods that have been judged, by UID; replaced, never changed
}

// Report sends the events about pods, none of which has ended, that it has not seen
// before. served are the resources that the node offers; with none, it does nothing.
func (u *Unserved) Report(e Events, pods []*v1.Pod, served []string) {
	if len(served) == 0 {
		return
	}
	u.mu.Lock()
	seen := u.seen
	u.mu.Unlock()
	now := map[string]bool{}
	for _, pod := range pods {
		if _, committed := pod.Annotations[api.AnnotationDevices]; !committed {
			continue
		}
		now[string(pod.UID)] = true
		if !seen[string(pod.UID)] {
			e.unserved(pod, served)
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen = now
}

func (e Events) unserved(pod *v1.Pod, served []string) {
	committed, err := commit.Committed(pod)
	if err != nil {
		return // reported when its containers start
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		asks := false
		for name := range c.Resources.Limits {
			asks = asks || slices.Contains(served, string(name))
		}
		if len(committed[c.Name]) > 0 && !asks {
			e.pod(pod, v1.EventTypeWarning, "NoGPUGiven", fmt.Sprintf(
				"container %s runs without the GPU that is committed to it: it requests none of the resources that this node serves (%s); request %s in its limits instead",
				c.Name, List(served), api.ResourceGPUMemory))
		}
	}
}
