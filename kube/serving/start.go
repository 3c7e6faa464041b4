package serving

import (
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/serving"
	"berth.dev/berth/kube/request"
)

// TimesOf returns when a pod of a service came how far. A server that was started again has no time of its start: when the first one
// loaded its model is not known.
func TimesOf(pod *corev1.Pod) (t serving.Times) {
	t.Created, t.Bound = pod.CreationTimestamp.Time, request.BoundAt(pod)
	for i := range pod.Status.InitContainerStatuses {
		c := &pod.Status.InitContainerStatuses[i]
		if end := c.State.Terminated; c.Name == Initializer && end != nil {
			t.FetchBegan, t.FetchEnded = end.StartedAt.Time, end.FinishedAt.Time
		}
	}
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		if (c.Name == Container || len(pod.Status.ContainerStatuses) == 1) && c.State.Running != nil && c.RestartCount == 0 {
			t.Server = c.State.Running.StartedAt.Time
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			t.Ready = c.LastTransitionTime.Time
		}
	}
	return t
}
