package allocation

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/kube"
)

// Promised names, by UUID, the pods to which a GPU or MIG device is committed and
// whose containers have not started: namespace and name, sorted. They hold nothing,
// and can start nowhere else. It reads the pods anew; Held has a value when there may
// be others. In mode kubelet, which honours no commitments, there are none.
func (n *Node) Promised(ctx context.Context) (map[string][]string, error) {
	if n.o.Kubelet {
		return nil, nil
	}
	pods, err := n.o.Pods.Pods(ctx, true)
	if err != nil {
		return nil, fmt.Errorf("list the pods of this node: %w", err)
	}
	out := map[string][]string{}
	for _, pod := range n.welcomed(pods) {
		named, err := kube.Committed(pod)
		if err != nil {
			continue // it is told when its containers start
		}
		name := pod.Namespace + "/" + pod.Name
		for _, list := range named {
			for _, d := range list {
				if !slices.Contains(out[d.UUID], name) {
					out[d.UUID] = append(out[d.UUID], name)
				}
			}
		}
	}
	for _, list := range out {
		slices.Sort(list)
	}
	return out, nil
}

// Drained tells which GPUs and MIG devices, by UUID, are only drained of those that
// SetGPUs is told are not well: somebody waits until nobody has them. Containers of pods
// that hold them start again.
func (n *Node) Drained(uuids map[string]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drained = maps.Clone(uuids)
}

// welcomed is promised, and has these pods alone start on what is drained.
func (n *Node) welcomed(pods []*v1.Pod) []*v1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.promised(pods)
	n.welcome = map[string]bool{}
	for _, pod := range out {
		n.welcome[kube.HolderID(pod)] = true
	}
	return out
}

// promised are the pods that have a commitment, no record, and have not ended. n.mu is
// held.
func (n *Node) promised(pods []*v1.Pod) []*v1.Pod {
	var out []*v1.Pod
	for _, pod := range pods {
		if n.records[kube.HolderID(pod)] == nil && !ended(pod) && pod.Annotations[api.AnnotationDevices] != "" {
			out = append(out, pod)
		}
	}
	return out
}

// tellPromised has those who wait for pods that have not started look again when there
// are others: such a pod may be deleted without ever having held anything.
func (n *Node) tellPromised(pods []*v1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := map[string]bool{}
	for _, pod := range n.promised(pods) {
		now[kube.HolderID(pod)] = true
	}
	if !maps.Equal(n.waiting, now) {
		n.waiting = now
		signal(n.held)
	}
}
