package kube

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stuckReasons are why a container waits that will not run before somebody does
// something about it.
var stuckReasons = map[string]bool{
	"CrashLoopBackOff": true, "ImagePullBackOff": true, "ErrImagePull": true, "ErrImageNeverPull": true, "InvalidImageName": true,
	"CreateContainerConfigError": true, "CreateContainerError": true, "RunContainerError": true,
}

// Stuck says whether a pod holds GPUs and cannot run: a container crashes again
// and again, or cannot be pulled or made. why names the first such container and
// the kubelet's reason; since is a time from which on it has surely been so, zero
// where the pod does not tell.
func Stuck(pod *v1.Pod) (why string, since time.Time, ok bool) {
	if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		return "", since, false
	}
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			s := &list[i]
			if s.State.Waiting == nil || !stuckReasons[s.State.Waiting.Reason] || Request(pod) == nil {
				continue
			}
			switch last := s.LastTerminationState.Terminated; {
			case last != nil:
				since = last.StartedAt.Time
			case s.RestartCount == 0 && pod.Status.StartTime != nil:
				since = pod.Status.StartTime.Time
			}
			return fmt.Sprintf("container %s: %s", s.Name, s.State.Waiting.Reason), since, true
		}
	}
	return "", since, false
}

// Replaceable says whether a pod that is deleted comes back by itself, and not at
// once on the same node: it has a controller that is no DaemonSet.
func Replaceable(pod *v1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	return ref != nil && ref.Kind != "DaemonSet" && ref.Kind != "Node"
}

// GPUNode says whether a node offers GPUs, in any form.
func GPUNode(node *v1.Node) bool {
	for name, q := range node.Status.Capacity {
		if GPUResource(string(name)) && !q.IsZero() {
			return true
		}
	}
	return false
}

// Stray says whether a pod asks for no GPU and has no business on GPU nodes: not
// one that comes with each node, nor part of the cluster's own machinery.
func Stray(pod *v1.Pod) bool {
	if Request(pod) != nil || everyNode(pod) {
		return false
	}
	switch pod.Spec.PriorityClassName {
	case "system-node-critical", "system-cluster-critical":
		return false
	}
	return true
}
