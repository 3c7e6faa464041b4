package allocation

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/devices"
)

// Pending returns the pods to which a GPU or MIG device is committed and whose
// containers have not started, by UUID: namespace and name, sorted. They hold
// nothing, and can start on no other node. It reads the pods from the server;
// HoldersChanged has a value when there may be others. In mode kubelet, which
// ignores commitments, there are none.
//
// These pods, and no other new ones, may start on draining devices from now on.
func (n *Node) Pending(ctx context.Context) (map[string][]string, error) {
	if n.o.Kubelet {
		return nil, nil
	}
	pods, err := n.o.Pods.Pods(ctx, true)
	if err != nil {
		return nil, fmt.Errorf("list the pods of this node: %w", err)
	}
	out := map[string][]string{}
	for _, pod := range n.allowPending(pods) {
		committed, err := commit.Committed(pod)
		if err != nil {
			continue // reported when its containers start
		}
		name := pod.Namespace + "/" + pod.Name
		for _, list := range committed {
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

// SetDraining sets the GPUs and MIG devices, by UUID, that SetGPUs calls unhealthy
// only because they are being drained. Pods that hold them may restart their
// containers.
func (n *Node) SetDraining(uuids map[string]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ledger.SetDraining(maps.Clone(uuids))
}

// allowPending returns the pods that have not started, and lets only these start
// on draining devices.
func (n *Node) allowPending(pods []*v1.Pod) []*v1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.ledger.Pending(pods)
	n.ledger.AllowOnDraining(uidsOf(out))
	return out
}

// notePending signals that the pods that have not started are others than before:
// such a pod may be deleted without ever having held a device.
func (n *Node) notePending(pods []*v1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := uidsOf(n.ledger.Pending(pods)); !maps.Equal(n.pending, now) {
		n.pending = now
		signal(n.held)
	}
}

func uidsOf(pods []*v1.Pod) map[string]bool {
	out := map[string]bool{}
	for _, pod := range pods {
		out[devices.HolderID(pod)] = true
	}
	return out
}
