package doctor

import (
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/api"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/request"
)

// devices finds GPUs that are there and that no pod can get.
func (e *examined) devices() []finding.Finding {
	var gone, short []string
	for _, n := range e.offering {
		node := e.byName[n.Name]
		capacity, allocatable, texts := int64(0), int64(0), []string{}
		for _, r := range sortedKeys(node.Status.Capacity) {
			if !request.IsGPU(string(r)) || r == api.ResourceGPUMemory {
				continue
			}
			has, gives := node.Status.Capacity[r], node.Status.Allocatable[r]
			all, some := request.Amount(&has, request.MostAsked), request.Amount(&gives, request.MostAsked)
			capacity, allocatable = capacity+all, allocatable+some
			if some < all {
				texts = append(texts, fmt.Sprintf("%d of %d %s", some, all, r))
			}
		}
		switch {
		case allocatable < capacity && allocatable == 0:
			gone = append(gone, n.Name)
		case allocatable < capacity:
			short = append(short, fmt.Sprintf("%s gives %s%s", n.Name, strings.Join(texts, ", "), xids(n)))
		}
	}
	var out []finding.Finding
	if len(gone) > 0 {
		out = append(out, fail("devices", fmt.Sprintf("%s with GPUs %s none of them: %s", count(len(gone), "node"), verb(len(gone), "gives", "give"), few(gone)),
			"the device plugin is gone or finds no healthy GPU: look at its pod there, and run `berth doctor node` on the node"))
	}
	if len(short) > 0 {
		out = append(out, warn("devices", "unhealthy devices: "+few(short), "`berth gpus` shows them; `kubectl describe node` has the events that say why"))
	}
	return out
}

// xids names the GPUs that are unhealthy and why, where that is reported.
func xids(n devices.Node) string {
	var out []string
	for _, g := range n.GPUs {
		if g.Index < 0 || g.Healthy {
			continue
		}
		text := fmt.Sprintf("GPU %d", g.Index)
		if g.Xid != 0 {
			text += fmt.Sprintf(": Xid %d", g.Xid)
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + few(out) + ")"
}

// closed finds nodes whose free GPUs no pod can get.
func (e *examined) closed() []finding.Finding {
	by := map[string][]string{}
	for _, n := range e.offering {
		if n.Remark != "" {
			by[n.Remark] = append(by[n.Remark], n.Name)
		}
	}
	var out []finding.Finding
	for _, why := range sortedKeys(by) {
		do := "see `kubectl describe node`, Conditions, and the kubelet's log there"
		if strings.Contains(why, "cordoned") {
			do = "`kubectl uncordon NODE` lets pods on it again"
		}
		out = append(out, warn("nodes", fmt.Sprintf("%s with GPUs %s %s: %s", count(len(by[why]), "node"), verb(len(by[why]), "is", "are"), why, few(by[why])), do))
	}
	return out
}

// taints looks at what keeps pods without GPUs off the nodes that have some.
func (e *examined) taints() []finding.Finding {
	const name = "taints"
	if len(e.offering) == 0 {
		return nil
	}
	var open, nodes, others []string
	for _, n := range e.offering {
		if _, kept := explain.Untolerated(e.byName[n.Name], nil); kept {
			continue
		}
		open = append(open, n.Name)
		before := len(others)
		for _, p := range e.on[n.Name] {
			if request.Stray(p) {
				others = append(others, p.Namespace+"/"+p.Name)
			}
		}
		if len(others) > before {
			nodes = append(nodes, n.Name)
		}
	}
	slices.Sort(others)
	switch {
	case len(open) == 0:
		return []finding.Finding{ok(name, "every node with GPUs keeps other pods off")}
	case len(others) == 0:
		return []finding.Finding{ok(name, "%s with GPUs %s no taint, and no pod without GPUs runs there: %s", count(len(open), "node"), verb(len(open), "has", "have"), few(open))}
	}
	return []finding.Finding{warn(name,
		fmt.Sprintf("%s with GPUs %s no taint and %s that %s for no GPU: %s (%s)", count(len(nodes), "node"), verb(len(nodes), "has", "have"),
			count(len(others), "pod"), verb(len(others), "asks", "ask"), few(nodes), few(others)),
		"kubectl taint node NODE nvidia.com/gpu=present:NoSchedule; see docs/gpu-nodes.md for what then tolerates it, and for --other-pods")}
}

// fakes finds nodes whose GPUs do not exist though the node does.
func (e *examined) fakes() []finding.Finding {
	var nodes []string
	for _, n := range e.offering {
		if e.byName[n.Name].Labels[api.LabelFakeGPUs] == "true" {
			nodes = append(nodes, n.Name)
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	return []finding.Finding{warn("fake-gpus", fmt.Sprintf("%s %s GPUs that do not exist: %s", count(len(nodes), "node"), verb(len(nodes), "offers", "offer"), few(nodes)),
		"Berth's agent runs there with --fake: good for a trial; take the flag away for GPUs that exist")}
}
