package pods

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/kube/record"
)

// Annotations of the kubelet's: a mirror pod stands for a static one, whose UID,
// by which the kubelet goes, it names.
const (
	annotationMirror = "kubernetes.io/config.mirror"
	annotationHash   = "kubernetes.io/config.hash"
)

// trim keeps of a pod what the agent needs: who it is, what it asks for, what
// was committed to it, the IDs of its containers, and whether it has ended. A
// mirror pod gets the UID of its static pod.
func trim(p *v1.Pod) *v1.Pod {
	out := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion,
			Labels: p.Labels, Annotations: p.Annotations, DeletionTimestamp: p.DeletionTimestamp,
		},
		Spec: v1.PodSpec{NodeName: p.Spec.NodeName, SchedulerName: p.Spec.SchedulerName},
		Status: v1.PodStatus{
			Phase:                 p.Status.Phase,
			ContainerStatuses:     trimStatuses(p.Status.ContainerStatuses),
			InitContainerStatuses: trimStatuses(p.Status.InitContainerStatuses),
		},
	}
	if _, mirror := p.Annotations[annotationMirror]; mirror && p.Annotations[annotationHash] != "" {
		out.UID = types.UID(p.Annotations[annotationHash])
	}
	out.Spec.InitContainers, out.Spec.Containers = record.Asks(p.Spec.InitContainers), record.Asks(p.Spec.Containers)
	return out
}

func trimStatuses(list []v1.ContainerStatus) []v1.ContainerStatus {
	var out []v1.ContainerStatus
	for i := range list {
		out = append(out, v1.ContainerStatus{Name: list[i].Name, ContainerID: list[i].ContainerID})
	}
	return out
}

// find returns the pod of a UID, or nil.
func find(pods []*v1.Pod, uid string) *v1.Pod {
	for _, p := range pods {
		if string(p.UID) == uid {
			return p
		}
	}
	return nil
}

// signal puts a value into a channel of capacity 1 that has none.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
