package explain

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/devices"
)

// joinsFor is how long a new node may take until it offers its GPUs.
const joinsFor = 10 * time.Minute

// acceleratorLabels are those by which clouds say that a node has GPUs, before a driver runs.
var acceleratorLabels = []string{
	"cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator", "karpenter.k8s.aws/instance-gpu-name", "kubernetes.azure.com/accelerator",
}

// Joining names the newest node that is ready, has NVIDIA GPUs by its labels, and offers none
// yet, where pod could go as far as is known; "" is none.
func Joining(pod *v1.Pod, nodes []*v1.Node, now time.Time) string {
	if !slices.ContainsFunc(AmountsOf(pod), func(a reasons.Amount) bool { return strings.HasPrefix(a.Resource, "nvidia.com/") }) {
		return ""
	}
	var newest *v1.Node
	for _, n := range nodes {
		at := n.CreationTimestamp.Time
		switch {
		case at.IsZero() || now.Sub(at) >= joinsFor || newest != nil && !at.After(newest.CreationTimestamp.Time):
		case len(gpuResources(n)) > 0 || !hasNVIDIACard(n) && !isAccelerated(n) || !devices.NodeReady(n) || n.Spec.Unschedulable:
		case tolerates(pod, n) != nil || !mayBeSelected(pod, n):
		default:
			newest = n
		}
	}
	if newest == nil {
		return ""
	}
	return newest.Name
}

func isAccelerated(n *v1.Node) bool {
	return slices.ContainsFunc(acceleratorLabels, func(key string) bool { return n.Labels[key] != "" })
}

// mayBeSelected reports whether a node has the labels that a pod wants, but for those of
// NVIDIA, which it gets when its GPUs are found.
func mayBeSelected(pod *v1.Pod, n *v1.Node) bool {
	for key, want := range pod.Spec.NodeSelector {
		if has, ok := n.Labels[key]; has != want && (ok || !strings.HasPrefix(key, "nvidia.com/")) {
			return false
		}
	}
	return true
}
