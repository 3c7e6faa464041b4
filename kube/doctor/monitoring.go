package doctor

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/exporter"
)

// monitoring says who publishes readings of the GPUs.
func (e *examined) monitoring() finding.Finding {
	const name = "monitoring"
	parts := e.of(roleExporter)
	on := map[string]bool{}
	agents := 0
	for _, p := range exporter.Exporters(e.Pods) {
		if p.Labels["app"] == agentLabel && !on[p.Spec.NodeName] {
			agents++
		}
		on[p.Spec.NodeName] = true
	}
	var without []string
	for i := range e.offering {
		if n := e.offering[i].Name; !on[n] {
			without = append(without, n)
		}
	}
	who := listed(parts)
	if agents > 0 {
		who = strings.TrimPrefix(who+fmt.Sprintf("; Berth's agent on %s", count(agents, "node")), "; ")
	}
	if who == "" && len(on) > 0 {
		who = fmt.Sprintf("pods of DCGM exporters on %s", count(len(on), "node"))
	}
	const activity = "BUSY is unknown, and idle rules fall back to activity only"
	switch with := len(e.offering) - len(without); {
	case who == "":
		return warn(name, "no DCGM exporter is found: "+activity, "install dcgm-exporter, or Berth's agent, which has its metrics: docs/metrics.md")
	case len(e.offering) == 0:
		return ok(name, "%s", who)
	case with == 0:
		return warn(name, who+"; it runs on no node with GPUs: "+activity, "look at its node selector, its tolerations and its pods")
	case len(without) > 0:
		return warn(name, fmt.Sprintf("%s; on %d of %s with GPUs, not on %s: there %s", who, with, count(len(e.offering), "node"), few(without), activity),
			"look at its node selector, its tolerations and its pods")
	}
	return ok(name, "%s; on every node with GPUs", who)
}

// missingLabel is the label of NVIDIA's that a part selects and that no node has, as KEY=VALUE; "" is none. Other labels
// do not count: clouds have DaemonSets for kinds of nodes that the cluster does not have.
func (e *examined) missingLabel(p *part) string {
	want := p.set.Spec.Template.Spec.NodeSelector
	for _, key := range sortedKeys(want) {
		if strings.HasPrefix(key, "nvidia.com/") && !slices.ContainsFunc(e.Nodes, func(n *v1.Node) bool { return n.Labels[key] == want[key] }) {
			return key + "=" + want[key]
		}
	}
	return ""
}

// unnamed finds exporters whose pods have no known label, and those that select no node.
func (e *examined) unnamed() []finding.Finding {
	var out []finding.Finding
	for _, p := range e.parts {
		if missing := e.missingLabel(p); p.role == roleExporter && p.wanted() == 0 && len(e.offering) > 0 && missing != "" {
			out = append(out, warn("exporter", fmt.Sprintf("DaemonSet %s runs a DCGM exporter on no node: none has the label that it selects, %s", p.name(), missing),
				"select what GPU Feature Discovery sets on nodes with GPUs: nvidia.com/gpu.present: \"true\""))
		}
	}
	for _, p := range e.of(roleExporter) {
		if p.key == "" {
			out = append(out, warn("exporter", fmt.Sprintf("DaemonSet %s runs a DCGM exporter, and its pods have none of the labels by which it is found", p.name()),
				"give them one of: "+strings.Join(exporter.ExporterSelectors, ", ")))
		}
	}
	return out
}
