package explain

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	reasons "berth.dev/berth/core/explain"
)

// unwellTaints are what a node is like that has one of the taints which controllers put
// on nodes and remove again, beside those of cordoned nodes and nodes that are not ready.
//
// Source: Kubernetes' well-known taints, Cluster Autoscaler, and Karpenter.
var unwellTaints = map[string]struct{ is, do string }{
	"node.kubernetes.io/memory-pressure":             {reasons.UnderMemoryPressure, "free memory on NODE: kubectl describe node NODE lists its pods"},
	"node.kubernetes.io/disk-pressure":               {reasons.UnderDiskPressure, "free disk space on NODE, such as images and logs that are not used"},
	"node.kubernetes.io/pid-pressure":                {reasons.UnderPIDPressure, "end processes on NODE"},
	"node.kubernetes.io/network-unavailable":         {reasons.WithoutNetwork, "see the network plugin's pod on NODE"},
	"node.cloudprovider.kubernetes.io/uninitialized": {reasons.Uninitialized, "wait; if it stays so, see the cloud controller manager"},
	"ToBeDeletedByClusterAutoscaler":                 {reasons.BeingRemoved, ""},
	"DeletionCandidateOfClusterAutoscaler":           {reasons.BeingRemoved, ""},
	"karpenter.sh/disrupted":                         {reasons.BeingRemoved, ""},
}

// unwell are the taints of a node that pass, and that pod does not tolerate.
func unwell(pod *v1.Pod, n *v1.Node) []reasons.Gap {
	var out []reasons.Gap
	for i := range n.Spec.Taints {
		taint := &n.Spec.Taints[i]
		if is, ok := unwellTaints[taint.Key]; ok && keepsOff(taint, pod) {
			out = append(out, reasons.Gap{Check: reasons.CheckClosed, Remedy: reasons.Mends, Subject: is.is, Do: is.do})
		}
	}
	return out
}

// lost reports whether the node of a name does not report.
func lost(nodes []*v1.Node, name string) bool {
	i := slices.IndexFunc(nodes, func(n *v1.Node) bool { return n.Name == name })
	return i >= 0 && slices.ContainsFunc(nodes[i].Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionUnknown
	})
}
