package request

import (
	"cmp"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

// Owner is what a person would name as the holder of a GPU: the object that
// was applied, not the objects that controllers made of it.
type Owner struct {
	Kind      string // such as "Deployment", "Job", "Notebook" or "Pod"
	Namespace string
	Name      string
}

// String is the owner without its kind: "vision/resnet".
func (o Owner) String() string { return o.Namespace + "/" + o.Name }

// CompareOwners orders owners by namespace, name, and kind.
func CompareOwners(a, b Owner) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
}

// OwnerOf names the owner of a pod from the pod alone. A ReplicaSet whose name
// ends with the pod's pod-template-hash stands for the Deployment before that
// hash. Pods of a Kubeflow Notebook or a KServe InferenceService are told by
// their labels. A pod with no controller, and a static pod, owns itself.
func OwnerOf(pod *v1.Pod) Owner {
	owner := Owner{Namespace: pod.Namespace}
	if name := pod.Labels[api.LabelNotebook]; name != "" {
		owner.Kind, owner.Name = "Notebook", name
		return owner
	}
	if name := pod.Labels[api.LabelInferenceService]; name != "" {
		owner.Kind, owner.Name = "InferenceService", name
		return owner
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind == "Node" {
		owner.Kind, owner.Name = "Pod", pod.Name
		return owner
	}
	owner.Kind, owner.Name = ref.Kind, ref.Name
	hash := pod.Labels["pod-template-hash"]
	if name, ok := strings.CutSuffix(ref.Name, "-"+hash); ok && hash != "" && ref.Kind == "ReplicaSet" {
		owner.Kind, owner.Name = "Deployment", name
	}
	return owner
}

// Since is when a pod began to hold what it has: when its kubelet took it on,
// else when it was bound, else when it was made.
func Since(pod *v1.Pod) time.Time {
	if began := Began(pod); !began.IsZero() {
		return began
	}
	return pod.CreationTimestamp.Time
}

// Began returns when a pod started: as its kubelet says, else when it was bound; zero is that neither is known.
func Began(pod *v1.Pod) time.Time {
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return BoundAt(pod)
}

// BoundAt is when a pod got its node, as its condition PodScheduled has it; zero is that
// the condition is not true.
func BoundAt(pod *v1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// OnEveryNode reports whether a pod is one that comes with each node.
func OnEveryNode(pod *v1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	return ref != nil && (ref.Kind == "DaemonSet" || ref.Kind == "Node")
}

// Replaceable reports whether a pod that is deleted comes back by itself, and not at
// once on the same node: it has a controller that is no DaemonSet.
func Replaceable(pod *v1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	return ref != nil && ref.Kind != "DaemonSet" && ref.Kind != "Node"
}

// Stray reports whether a pod asks for no GPU and has no business on GPU nodes: not
// one that comes with each node, nor part of the cluster's own machinery.
func Stray(pod *v1.Pod) bool {
	if Of(pod) != nil || OnEveryNode(pod) {
		return false
	}
	switch pod.Spec.PriorityClassName {
	case "system-node-critical", "system-cluster-critical":
		return false
	}
	return true
}
