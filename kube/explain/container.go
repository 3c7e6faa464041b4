package explain

import v1 "k8s.io/api/core/v1"

// eachContainer calls do for every container of a pod, init containers first.
func eachContainer(pod *v1.Pod, do func(*v1.Container)) {
	for i := range pod.Spec.InitContainers {
		do(&pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		do(&pod.Spec.Containers[i])
	}
}

// eachAmount calls do for what every container of a pod requests, and for its limits.
func eachAmount(pod *v1.Pod, do func(v1.ResourceList)) {
	eachContainer(pod, func(c *v1.Container) {
		do(c.Resources.Requests)
		do(c.Resources.Limits)
	})
}
