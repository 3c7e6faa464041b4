package allocation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"berth.dev/berth/agent/allocation/checkpoint"
	"berth.dev/berth/agent/allocation/notice"
	"berth.dev/berth/kube/request"
)

// Neither Allocate nor PreStartContainer says which pod it is for. This file finds
// it: by the device IDs, in what the kubelet keeps.

// findPod returns all entries of the pod that has these IDs of a resource, sorted.
//
// The IDs may be those of several containers: of an init container, and of those
// that use its devices again. They belong to one pod, so it does not matter which
// of them starts: each has its own CDI name, and all get their spec.
func (n *Node) findPod(ctx context.Context, resource string, ids []string) ([]checkpoint.Entry, error) {
	entries, err := n.checkpoint.Read()
	var mine []checkpoint.Entry
	if err == nil {
		if mine, err = n.entriesOfPod(ctx, entries, resource, ids); err == nil && len(mine) > 0 {
			err = checkpoint.ReadNonces(mine)
		}
	}
	if err == nil && len(mine) > 0 || notice.Is(err) {
		return mine, err
	}
	if n.o.PodResources != "" {
		n.log.Warn("the kubelet's checkpoint does not name the pod; asking the pod-resources API", "error", err)
		if entries, err = n.podResources(ctx); err != nil {
			return nil, notice.Refuse(notice.ReasonPodUnknown, "%w", err)
		}
		if mine, err = n.entriesOfPod(ctx, entries, resource, ids); err != nil {
			return nil, err
		}
		err = n.checkOneAnswer(mine)
	}
	if err == nil && len(mine) == 0 {
		err = notice.Refuse(notice.ReasonPodUnknown, "the kubelet starts a container with %s of %s but does not say which; it retries automatically", notice.List(ids), resource)
	} else if err != nil && !notice.Is(err) {
		err = notice.Refuse(notice.ReasonPodUnknown, "%w; mount the kubelet's pod-resources directory into the agent's container", err)
	}
	return mine, err
}

// entriesOfPod returns all entries of the pod that has these IDs of a resource,
// sorted; none if no pod has them.
func (n *Node) entriesOfPod(ctx context.Context, entries []checkpoint.Entry, resource string, ids []string) ([]checkpoint.Entry, error) {
	var uids []string
	for i := range entries {
		if entries[i].Has(resource, ids) && !slices.Contains(uids, entries[i].PodUID) {
			uids = append(uids, entries[i].PodUID)
		}
	}
	if len(uids) > 1 {
		uids = n.notEnded(ctx, uids)
	}
	switch len(uids) {
	case 0:
		return nil, nil
	case 1:
	default:
		return nil, notice.Refuse(notice.ReasonAmbiguous, "the kubelet starts a container with %s of %s, which it has allocated to several pods: delete all but one of %s", notice.List(ids), resource, notice.List(uids))
	}
	var mine []checkpoint.Entry
	for _, e := range entries {
		if e.PodUID == uids[0] {
			mine = append(mine, e)
		}
	}
	checkpoint.SortEntries(mine)
	return mine, nil
}

// notEnded returns the pods that have not ended. One that cannot be read stays.
func (n *Node) notEnded(ctx context.Context, uids []string) []string {
	return slices.DeleteFunc(uids, func(uid string) bool {
		pod, err := n.o.Pods.Pod(ctx, uid, true)
		return err == nil && (pod == nil || request.Ended(pod))
	})
}

// checkOneAnswer refuses entries from the pod-resources API if another answer was
// for the same IDs.
func (n *Node) checkOneAnswer(entries []checkpoint.Entry) error {
	for i := range entries {
		e := &entries[i]
		if len(n.answers.For(e.Resource, e.DeviceIDs)) > 1 {
			return notice.Refuse(notice.ReasonAmbiguous, "container %s of pod %s shares devices of %s with an init container, and the kubelet's checkpoint, which distinguishes them, cannot be read: delete the pod, or remove GPUs from its init containers",
				e.Container, e.PodUID, e.Resource)
		}
	}
	return nil
}

// answerTime limits how long the kubelet may take to list its pods' resources.
const answerTime = 10 * time.Second

// podResources returns the kubelet's entries from its pod-resources API.
func (n *Node) podResources(ctx context.Context) ([]checkpoint.Entry, error) {
	return checkpoint.List(ctx, n.o.PodResources, func() (map[string]string, error) {
		pods, err := n.o.Pods.Pods(ctx, true)
		if err != nil {
			return nil, fmt.Errorf("the pods of this node cannot be read: %w", err)
		}
		uids := map[string]string{}
		for _, pod := range pods {
			if !request.Ended(pod) {
				uids[pod.Namespace+"/"+pod.Name] = string(pod.UID)
			}
		}
		return uids, nil
	}, &n.answers)
}
