package request

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/user"
)

// MakerOf returns the UID of the object that makes another pod when this one has ended: its controller,
// such as a Job or a ReplicaSet, and for a Job of a JobSet the JobSet, which makes its Jobs again. A pod
// that nothing makes again, or whose controller a user has written on it, has its own. owners reads Jobs; if it
// has none, the Job counts.
func MakerOf(pod *v1.Pod, owners Owners) string {
	ref := makerOf(pod)
	if ref == nil || ref.Kind == "Node" {
		return string(pod.UID)
	}
	if ref.Kind == "Job" && pod.Labels[api.LabelJobSet] != "" {
		if job := owners(pod.Namespace, ref); job != nil && job.GetUID() == ref.UID {
			if set := makerOf(job); set != nil && set.Kind == "JobSet" {
				return cmp.Or(string(set.UID), string(ref.UID))
			}
		}
	}
	return cmp.Or(string(ref.UID), string(pod.UID))
}

// makerOf is the controller of an object, nil if it has none or if, as its stamp shows, a user has
// written the reference.
func makerOf(o metav1.Object) *metav1.OwnerReference {
	ref, s := metav1.GetControllerOfNoCopy(o), StampOf(o)
	switch {
	case ref == nil:
	case s.Controller != "" && s.Controller != string(ref.UID):
		return nil
	case s.Controller == "" && s.User != "" && !user.IsProgram(s.User):
		return nil
	}
	return ref
}
