package devices

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/explain"
	"berth.dev/berth/kube/request"
)

// noImage is what is said of a container whose image is not to be had.
const noImage = "cannot pull image"

// stuckReasons are why a container waits that will not run before somebody does
// something about it, each in a few words.
var stuckReasons = map[string]string{
	"CrashLoopBackOff": "crashes again and again",
	"ImagePullBackOff": noImage, "ErrImagePull": noImage, "ErrImageNeverPull": noImage, "InvalidImageName": noImage,
	"CreateContainerConfigError": "cannot be made", "CreateContainerError": "cannot be made", "RunContainerError": "cannot be made",
}

// Stuck reports whether a pod holds GPUs and cannot run: a container crashes again
// and again, or cannot be pulled or made. why names the first such container and
// the kubelet's reason; of one that cannot be pulled the image, since the kubelet
// gives now this reason and now that. since is a time from which on it has surely
// been so, zero where the pod does not tell.
func Stuck(pod *v1.Pod) (why string, since time.Time, ok bool) {
	s, how := stuckAt(pod)
	if s == nil {
		return "", since, false
	}
	switch last := s.LastTerminationState.Terminated; {
	case last != nil:
		since = last.StartedAt.Time
	case s.RestartCount == 0 && pod.Status.StartTime != nil:
		since = pod.Status.StartTime.Time
	}
	why = s.State.Waiting.Reason
	if how == noImage {
		image := imageOf(pod, s)
		why = noImage + " " + image
		if remark := explain.TagRemark(image); remark != "" {
			why += "; " + remark
		}
	}
	return fmt.Sprintf("container %s: %s", s.Name, why), since, true
}

// stuckAt returns the first container that keeps a pod with GPUs from running, and in
// a few words how; nil where none does, or the pod holds none.
func stuckAt(pod *v1.Pod) (*v1.ContainerStatus, string) {
	if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || request.Ended(pod) {
		return nil, ""
	}
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			if w := list[i].State.Waiting; w != nil && stuckReasons[w.Reason] != "" && request.AsksForGPUs(pod) {
				return &list[i], stuckReasons[w.Reason]
			}
		}
	}
	return nil, ""
}

// imageOf is the image of a container as its pod names it; the status may have it by
// its digest.
func imageOf(pod *v1.Pod, s *v1.ContainerStatus) string {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == s.Name {
				return list[i].Image
			}
		}
	}
	return s.Image
}
