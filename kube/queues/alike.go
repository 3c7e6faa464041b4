package queues

import (
	"maps"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
)

// CountAlike reports whether all that quotas count is equal of two versions of a pod.
func CountAlike(was, now *v1.Pod) bool {
	return stateAlike(was, now) && HoldAlike(was, now)
}

// HoldAlike reports whether two versions of a pod are of one queue and user, and hold the same. It is false
// for bound pods without committed devices: the status of these may say what they hold.
func HoldAlike(was, now *v1.Pod) bool {
	_, committed := now.Annotations[api.AnnotationDevices]
	return was.Spec.NodeName == now.Spec.NodeName && (committed || now.Spec.NodeName == "") && maps.Equal(was.Labels, now.Labels) && maps.Equal(was.Annotations, now.Annotations)
}

// BoundAlike reports whether a pod was bound and got devices, and all else that quotas count is equal of the two versions.
func BoundAlike(was, now *v1.Pod) bool {
	_, had := was.Annotations[api.AnnotationDevices]
	_, committed := now.Annotations[api.AnnotationDevices]
	if was.Spec.NodeName != "" || now.Spec.NodeName == "" || had || !committed || len(now.Annotations) != len(was.Annotations)+1 || !stateAlike(was, now) {
		return false
	}
	return contains(now.Annotations, was.Annotations) && gained(was.Labels, now.Labels)
}

// gained reports whether labels are as they were, but for those that the API server copies from the node to a pod that is bound (KEP-4742,
// admission plugin PodTopologyLabels).
func gained(was, now map[string]string) bool {
	more := 0
	for _, key := range []string{v1.LabelTopologyZone, v1.LabelTopologyRegion} {
		_, had := was[key]
		if _, has := now[key]; has && !had {
			more++
		}
	}
	return len(now) == len(was)+more && contains(now, was)
}

// contains reports whether all has each entry of some.
func contains(all, some map[string]string) bool {
	for key, value := range some {
		if other, there := all[key]; !there || other != value {
			return false
		}
	}
	return true
}

// stateAlike reports whether two versions of a pod are equally far.
func stateAlike(was, now *v1.Pod) bool {
	return was.Status.Phase == now.Status.Phase && (was.DeletionTimestamp != nil) == (now.DeletionTimestamp != nil) && was.Status.StartTime.Equal(now.Status.StartTime)
}
