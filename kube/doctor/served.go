package doctor

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"berth.dev/berth/api"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/explain"
)

// hardwareLabels say that a node has NVIDIA GPUs, whether or not it offers them:
// Node Feature Discovery's for NVIDIA as a PCI vendor, alone or with the class of a
// display or 3D controller; GPU Feature Discovery's and the GPU Operator's; those of
// GKE, EKS, AKS and Karpenter. deploy/agent-daemonset.yaml chooses nodes by them.
var hardwareLabels = []string{
	"feature.node.kubernetes.io/pci-10de.present",
	"feature.node.kubernetes.io/pci-0300_10de.present",
	"feature.node.kubernetes.io/pci-0302_10de.present",
	"nvidia.com/gpu.present",
	api.LabelProduct,
	"cloud.google.com/gke-accelerator",
	"k8s.amazonaws.com/accelerator",
	"eks.amazonaws.com/instance-gpu-name",
	"kubernetes.azure.com/accelerator",
	"eks.amazonaws.com/instance-gpu-manufacturer",
	"karpenter.k8s.aws/instance-gpu-manufacturer",
	"karpenter.azure.com/sku-gpu-manufacturer",
}

// hardware is the label of a node that says it has GPUs, or "". A node whose GPUs go
// to virtual machines has none for containers.
func hardware(n *v1.Node) string {
	if strings.HasPrefix(n.Labels["nvidia.com/gpu.workload.config"], "vm-") {
		return ""
	}
	for _, key := range hardwareLabels {
		if v, has := n.Labels[key]; has && v != "false" && (v == "nvidia" || !strings.HasSuffix(key, "-manufacturer")) {
			return key
		}
	}
	return ""
}

// unserved finds nodes that have GPUs by their labels, and offer none: once for each
// cause.
func (e *examined) unserved() []finding.Finding {
	nodes, labels := map[string][]string{}, map[string][]string{}
	for _, n := range e.hidden {
		do := e.whyUnserved(n)
		nodes[do] = append(nodes[do], n.Name)
		if l := hardware(n); !slices.Contains(labels[do], l) {
			labels[do] = append(labels[do], l)
		}
	}
	var out []finding.Finding
	for _, do := range sortedKeys(nodes) {
		slices.Sort(labels[do])
		out = append(out, fail("unserved", fmt.Sprintf("%s %s NVIDIA GPUs and no device plugin serves them: %s (label %s)",
			count(len(nodes[do]), "node"), verb(len(nodes[do]), "has", "have"), few(nodes[do]), strings.Join(labels[do], ", ")), do))
	}
	return out
}

// whyUnserved is what to do for a node without a device plugin.
func (e *examined) whyUnserved(n *v1.Node) string {
	plugins := slices.DeleteFunc(e.of(plugin), func(p *part) bool { return p.simulated && !simulated(n) })
	for _, p := range plugins {
		for _, pod := range e.on[n.Name] {
			if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && ref.Kind == "DaemonSet" && ref.Name == p.set.Name && pod.Namespace == p.set.Namespace {
				return fmt.Sprintf("the pod of DaemonSet %s there serves nothing: see its log, and run `berth doctor node` on the node", p.name())
			}
		}
	}
	for _, p := range plugins {
		if t, kept := explain.Untolerated(n, p.set.Spec.Template.Spec.Tolerations); kept {
			return fmt.Sprintf("DaemonSet %s does not tolerate %s: add %s to its tolerations", p.name(), t.ToString(), explain.TolerationOf(&t))
		}
	}
	if len(plugins) > 0 {
		p := plugins[0]
		switch {
		case chooses(p, n):
		case p.who == berthsAgent && n.Labels[api.LabelAgent] == "false":
			return fmt.Sprintf("the label %s=false keeps DaemonSet %s away: remove it where the agent is wanted", api.LabelAgent, p.name())
		case p.who == berthsAgent:
			return fmt.Sprintf("DaemonSet %s does not choose them: kubectl label node NODE %s=true", p.name(), api.LabelAgent)
		default:
			return fmt.Sprintf("DaemonSet %s does not choose them: compare its node selector %s with their labels", p.name(), selector(p))
		}
		return fmt.Sprintf("DaemonSet %s has no pod there: see its events with kubectl describe", p.name())
	}
	return "install a device plugin: Berth's agent (docs/node.md), NVIDIA's, or the GPU Operator"
}

// chooses reports whether a DaemonSet's selector and affinity allow a node.
func chooses(p *part, n *v1.Node) bool {
	fits, err := nodeaffinity.GetRequiredNodeAffinity(&v1.Pod{Spec: p.set.Spec.Template.Spec}).Match(n)
	return fits && err == nil
}

// selector writes the node selector of a DaemonSet.
func selector(p *part) string {
	var out []string
	for _, k := range sortedKeys(p.set.Spec.Template.Spec.NodeSelector) {
		out = append(out, k+"="+p.set.Spec.Template.Spec.NodeSelector[k])
	}
	if len(out) == 0 {
		return "(its affinity)"
	}
	return strings.Join(out, ",")
}

// twice finds nodes that two device plugins serve. Those that stand there for berth
// up are no two: their pods run nothing, and the simulated kubelet serves the GPUs.
func (e *examined) twice() []finding.Finding {
	by := map[string][]*part{}
	for _, p := range e.of(plugin) {
		for _, n := range p.nodes {
			by[n] = append(by[n], p)
		}
	}
	pairs, harmless := map[string][]string{}, map[string]bool{}
	for _, n := range sortedKeys(by) {
		if len(by[n]) < 2 || !slices.ContainsFunc(by[n], func(p *part) bool { return !p.simulated }) {
			continue
		}
		var names []string
		others := 0
		for _, p := range by[n] {
			names = append(names, fmt.Sprintf("%s (%s)", p.name(), p.who))
			if p.value != agentLabel {
				others++
			}
		}
		key := strings.Join(names, ", ")
		pairs[key], harmless[key] = append(pairs[key], n), others < 2
	}
	var out []finding.Finding
	for _, key := range sortedKeys(pairs) {
		seen := fmt.Sprintf("several device plugins run on %s: %s: %s", verb(len(pairs[key]), "one node", "the same nodes"), few(pairs[key]), key)
		if harmless[key] {
			out = append(out, warn("two-plugins", seen, "Berth's agent stands back for the other: take one of them away, docs/node.md says in which order"))
			continue
		}
		out = append(out, fail("two-plugins", seen,
			"the kubelet listens to the last that registers, and devices may be given twice: take one away, or give each nodes of its own by a node selector"))
	}
	return out
}
