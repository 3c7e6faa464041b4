package explain

import (
	"slices"
	"strings"
	"time"
)

// solvedByANode are the causes that a new node removes: for them, what an autoscaler says
// about the pod is why it still waits.
var solvedByANode = []Code{
	"", CodeNoGPUNode, CodeNotOffered, CodeHeld, CodeFragmented, CodeCordoned, CodeNotReady, CodeCPU, CodeMemory, CodeUnhealthy, CodeClique, CodeHostPort,
	CodePods, CodePressure, CodeNodeNetwork, CodeNodeLeaves, CodeAntiAffinity, CodeTerminating, CodeLowPriority, CodeNeverPreempts, CodeBudget, CodeStorage,
}

// scaling is what an autoscaler has said about the pod last: Cluster Autoscaler or Karpenter.
//
// Source: the events of Cluster Autoscaler (TriggeredScaleUp, NotTriggerScaleUp,
// FailedScaleUp) and of Karpenter (Nominated, FailedScheduling).
func (f *Facts) scaling() diagnosis {
	held := "waits for " + f.wants() + "; "
	waits := slices.Contains(solvedByANode, f.Verdict.Code())
	if f.Joining != "" && waits {
		return diagnosis{CodeNodeJoins, Queued, held + "node " + f.Joining + " is new, and offers no GPU yet: its driver and device plugin usually take some minutes"}
	}
	e := f.Pod.autoscaler()
	if e == nil {
		return f.unscaled()
	}
	if f.Pod.NodeComes() {
		return diagnosis{CodeNodeComes, Queued, held + "a new node is on its way (" + e.Message + "); a GPU node usually takes some minutes until its driver is ready"}
	}
	if !waits {
		return diagnosis{}
	}
	text := strings.ToLower(e.Message)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}
	said := "; the autoscaler reports: " + e.Message
	switch {
	case has("quota", "vcpulimitexceeded", "limitexceeded"):
		return diagnosis{CodeCloudQuota, Queued, held + "the cloud account's quota allows no more such nodes; ask for a larger quota in that region" + said}
	case has("insufficientinstancecapacity", "resource_pool_exhausted", "stockout", "out of stock", "out of resources", "allocationfailed", "insufficient capacity"):
		return diagnosis{CodeStockOut, Queued, held + "the cloud has no such machines free in that zone now; allow other zones, other machine types, or on-demand ones" + said}
	case has("max node group size reached", "max cluster", "limits exceeded", "exceed limits", "limit reached"):
		return diagnosis{CodeGroupFull, Queued, held + "node groups are as large as they may become; an administrator raises the limit of the group" + said}
	case e.Reason == "FailedScaleUp":
		return diagnosis{CodeScaleUpFailed, Queued, held + "a new node was asked for, and the cloud refused it" + said}
	case has("insufficient nvidia.com/gpu", "insufficient amd.com/gpu", "insufficient gpu.intel.com") && !has("didn't match"):
		return diagnosis{CodeTemplate, Queued, held + "the autoscaler believes that new nodes have no GPU; give the group's template its GPUs, as with the tag k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu" + said}
	}
	return diagnosis{CodeNoGroup, Queued, held + "a new node of no node group would do for it" + said}
}

// autoscaler is what an autoscaler has said last about the pod; nil is nothing.
func (p *Pod) autoscaler() *Refusal {
	e := p.said(append(autoscalers(), "FailedScheduling")...)
	for e != nil && e.Reason == "FailedScheduling" && !strings.HasPrefix(e.Message, "Failed to schedule pod") {
		e = p.said(autoscalers()...) // the other is kube-scheduler's
	}
	return e
}

// NodeComes reports whether an autoscaler has said last that it makes a node for the pod.
func (p *Pod) NodeComes() bool {
	e := p.autoscaler()
	return e != nil && (e.Reason == "TriggeredScaleUp" || e.Reason == "Nominated")
}

// autoscalers are reasons of events that only autoscalers make. Karpenter's FailedScheduling has kube-scheduler's name.
func autoscalers() []string {
	return []string{"TriggeredScaleUp", "NotTriggerScaleUp", "FailedScaleUp", "Nominated"}
}

// OfAutoscaler reports whether an event with this reason is of an autoscaler. Most of these events are of type Normal.
func OfAutoscaler(reason string) bool { return slices.Contains(autoscalers(), reason) }

// unscaled is that a declared pool could grow for the pod, and nothing makes it grow.
func (f *Facts) unscaled() diagnosis {
	if f.Pool == "" || f.Waited < Unscaled {
		return diagnosis{}
	}
	return diagnosis{CodeNoAutoscaler, Queued, "waits for " + f.wants() + "; a new node of pool " + f.Pool +
		" would do, and this cluster has no autoscaler that is known; an administrator adds a node to the pool, or installs an autoscaler"}
}

// Unscaled is after which time without an event an autoscaler is taken not to exist.
const Unscaled = 30 * time.Second
