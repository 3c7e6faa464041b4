package queues

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/request"
)

// LineResources are Kueue's WorkloadPriorityClasses, the newest version first.
var LineResources = []schema.GroupVersionResource{
	{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloadpriorityclasses"},
	{Group: "kueue.x-k8s.io", Version: "v1beta1", Resource: "workloadpriorityclasses"},
}

// LineKind is the kind of LineResources.
const LineKind = "WorkloadPriorityClass"

// LinePriorities are the values of the WorkloadPriorityClasses of a cluster, by name.
type LinePriorities map[string]int32

// NewLinePriorities reads WorkloadPriorityClasses. One without a value counts 0.
func NewLinePriorities(list []*unstructured.Unstructured) LinePriorities {
	out := make(LinePriorities, len(list))
	for _, o := range list {
		value, _, _ := unstructured.NestedInt64(o.Object, "value") // 0 if it is none
		out[o.GetName()] = int32(value)                            //nolint:gosec // the API has an int32
	}
	return out
}

// mostAbove is how many objects above a pod are looked at.
const mostAbove = 5

// Of returns the priority of an object in the line of its queue, apart from that of its pods: of the
// WorkloadPriorityClass that it names, or the nearest object above it does. Nil is that none is
// named, or that it does not exist.
func (l LinePriorities) Of(o metav1.Object, owners request.Owners) *int32 {
	if len(l) == 0 {
		return nil
	}
	for range mostAbove {
		if name := o.GetLabels()[api.LabelKueuePriority]; name != "" {
			if value, there := l[name]; there {
				return &value
			}
			return nil
		}
		ref := metav1.GetControllerOfNoCopy(o)
		if ref == nil || owners == nil {
			return nil
		}
		above := owners(o.GetNamespace(), ref)
		if above == nil || above.GetUID() != ref.UID {
			return nil
		}
		o = above
	}
	return nil
}
