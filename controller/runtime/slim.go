package runtime

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"berth.dev/berth/kube/record"
	"berth.dev/berth/kube/request"
)

// SlimPod keeps of a pod what says which GPUs it holds, and of its status what status returns; of a pod without GPUs
// only its name.
func SlimPod(status func(*v1.PodStatus) v1.PodStatus) toolscache.TransformFunc {
	return func(o any) (any, error) {
		p, ok := o.(*v1.Pod)
		if !ok {
			return o, nil
		}
		if !request.AsksForGPUs(p) {
			return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}}, nil
		}
		p.SetManagedFields(nil)
		p.Spec.Volumes, p.Spec.Tolerations = nil, nil
		p.Spec.Containers, p.Spec.InitContainers = record.Asks(p.Spec.Containers), record.Asks(p.Spec.InitContainers)
		p.Status = status(&p.Status)
		return p, nil
	}
}

// SlimContainers keeps of the statuses of containers how they run and which devices they have: not their images, which are long names, nor
// their mounts.
func SlimContainers(list []v1.ContainerStatus) []v1.ContainerStatus {
	for i := range list {
		c := &list[i]
		for _, t := range []*v1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if t != nil {
				t.ContainerID = ""
			}
		}
		*c = v1.ContainerStatus{
			Name: c.Name, State: c.State, LastTerminationState: c.LastTerminationState, Ready: c.Ready, RestartCount: c.RestartCount,
			AllocatedResourcesStatus: c.AllocatedResourcesStatus,
		}
	}
	return list
}

// SlimConditions keeps the conditions of a pod of some types.
func SlimConditions(list []v1.PodCondition, types ...v1.PodConditionType) (out []v1.PodCondition) {
	for _, c := range list {
		if slices.Contains(types, c.Type) {
			out = append(out, c)
		}
	}
	return out
}
