package state

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

// Binding is what binds pod to a node, with the devices that c chose there; nil is none.
// What is sent is what was rehearsed.
func Binding(pod *v1.Pod, node string, c *allocation) *v1.Binding {
	out := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}
	if c != nil {
		out.Annotations = map[string]string{api.AnnotationDevices: c.Annotation}
	}
	return out
}

// Refused says that the API server has answered that it did not bind: nothing
// of the request comes later.
func Refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err)
}
