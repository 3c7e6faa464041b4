package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/request"
)

// NodePool is what Karpenter may make of one of its NodePools (karpenter.sh/v1).
type NodePool struct {
	Name string
	// Needs are the requirements of its nodes: spec.template.spec.requirements.
	Needs []v1.NodeSelectorRequirement
	// GPULimit is nvidia.com/gpu of spec.limits; "" is that it has none.
	GPULimit string
}

// Unscaled is what the cluster autoscaler said of a pod for which it adds no node: its event NotTriggerScaleUp.
type Unscaled struct{ Namespace, Pod, Message string }

// What decides whether nodes of a NodePool have GPUs of NVIDIA, by the labels of Karpenter's providers for AWS and Azure.
var (
	gpuKeys     = []string{"karpenter.k8s.aws/instance-gpu-name", "karpenter.k8s.aws/instance-gpu-count", "karpenter.azure.com/sku-gpu-name", "karpenter.azure.com/sku-gpu-count"}
	gpuFamilies = map[string]*regexp.Regexp{
		"karpenter.k8s.aws/instance-category": regexp.MustCompile(`^(g|gr|p)$`),
		"karpenter.k8s.aws/instance-family":   regexp.MustCompile(`^(g|gr|p)\d`),
		"karpenter.azure.com/sku-family":      regexp.MustCompile(`^N`),
		v1.LabelInstanceTypeStable:            regexp.MustCompile(`^(g|gr|p)\d|^Standard_N|^[^.]*$`), // elsewhere a type does not tell: GPUs are added to it
	}
	azureType = regexp.MustCompile(`^Standard_[^N]`)
)

// withoutGPUs is why no node of a pool has GPUs; "" is that some may have.
func (p *NodePool) withoutGPUs() string {
	if p.GPULimit == "0" {
		return "limits: " + api.ResourceGPU + " 0"
	}
	for _, r := range p.Needs {
		if slices.Contains(gpuKeys, r.Key) && r.Operator == v1.NodeSelectorOpDoesNotExist {
			return r.Key + " DoesNotExist"
		}
		with := gpuFamilies[r.Key]
		if with == nil || r.Operator != v1.NodeSelectorOpIn {
			continue
		}
		if !slices.ContainsFunc(r.Values, func(value string) bool { return with.MatchString(value) && !azureType.MatchString(value) }) {
			return r.Key + " In " + few(r.Values)
		}
	}
	return ""
}

// templates finds autoscalers that believe, or see to it, that new nodes have no GPUs, while pods wait for some.
func (e *examined) templates() []finding.Finding {
	const name = "autoscaler-templates"
	waits := map[string]bool{}
	for _, p := range e.Pods {
		if p.Spec.NodeName == "" && request.Unscheduled(p) != nil && request.Of(p)[api.ResourceGPU] > 0 {
			waits[p.Namespace+"/"+p.Name] = true
		}
	}
	if len(waits) == 0 {
		return nil
	}
	var out []finding.Finding
	var pools []string
	for i := range e.NodePools {
		if why := e.NodePools[i].withoutGPUs(); why != "" {
			pools = append(pools, e.NodePools[i].Name+" ("+why+")")
		}
	}
	if len(pools) > 0 && len(pools) == len(e.NodePools) {
		slices.Sort(pools)
		out = append(out, warn(name, fmt.Sprintf("%s for GPUs, and no NodePool of Karpenter makes nodes with some: %s", waiting(len(waits)), few(pools)),
			"add a NodePool whose requirements allow machines with GPUs, such as karpenter.k8s.aws/instance-category In [g, p], with a taint for them"))
	}
	var blind []string
	for _, u := range e.Unscaled {
		text := strings.ToLower(u.Message)
		if waits[u.Namespace+"/"+u.Pod] && strings.Contains(text, "insufficient "+api.ResourceGPU) && !strings.Contains(text, "max node group size reached") {
			blind = append(blind, u.Namespace+"/"+u.Pod)
		}
	}
	if slices.Sort(blind); len(blind) > 0 {
		blind = slices.Compact(blind)
		out = append(out, warn(name, fmt.Sprintf("%s for GPUs, and the cluster autoscaler adds no node, as by its templates new nodes have none: %s", waiting(len(blind)), few(blind)),
			"tell it what nodes of a group with 0 nodes have: on AWS the tag k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu of the group, with Cluster API the annotation capacity.cluster-autoscaler.kubernetes.io/gpu-count"))
	}
	return out
}

// waiting writes "1 pod waits" and "2 pods wait".
func waiting(n int) string { return count(n, "pod") + " " + verb(n, "waits", "wait") }
