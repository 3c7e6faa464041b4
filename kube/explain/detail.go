package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/devices"
)

// detail is the binding cause more exactly than its check tells; nil is that the check
// says all.
func (t *Cluster) detail(v *reasons.Verdict, a *ask) *reasons.Detail {
	c := v.Binding()
	if c == nil {
		return nil
	}
	g := &c.Gap
	switch g.Check { //nolint:exhaustive // the rest says all
	case reasons.CheckOffered:
		return cmp.Or(claimOnly(v), t.otherDevices(t.all, g.Subject, ""))
	case reasons.CheckSelector, reasons.CheckAffinity:
		return cmp.Or(claimOnly(v), t.selection(a, g))
	case reasons.CheckTaint:
		return taintDetail(a.pod, g.Subject)
	case reasons.CheckGPUs, reasons.CheckClique, reasons.CheckGPUMemory:
		switch g.Remedy {
		case reasons.Mends:
			return t.driverDetail(c)
		case reasons.Waits:
			return cmp.Or(t.keptDetail(a), t.leaving(a), t.ranked(a), memoryHeld(g))
		case reasons.Never:
		}
	}
	return nil
}

// otherDevices is what nodes offer in place of a GPU resource that they do not: it is
// divided otherwise, it goes by another name, or nothing of it is offered yet. chosen says
// how the workload has chosen the nodes; "" is that it has not.
func (t *Cluster) otherDevices(nodes []*v1.Node, name, chosen string) *reasons.Detail {
	has := func(prefix string) bool {
		return slices.ContainsFunc(nodes, func(n *v1.Node) bool {
			return slices.ContainsFunc(gpuResources(n), func(r string) bool { return strings.HasPrefix(r, prefix) })
		})
	}
	offers := func() string {
		var all []string
		for _, n := range nodes {
			all = append(all, gpuResources(n)...)
		}
		slices.Sort(all)
		return strings.Join(slices.Compact(all), ", ")
	}
	profile, mig := strings.CutPrefix(name, api.ResourceMIGPrefix)
	nvidia := mig || name == api.ResourceGPU || name == api.ResourceGPUShared
	for _, n := range nodes {
		state := n.Labels[api.LabelMIGState]
		if nvidia && unoffered(n, n.Status.Capacity, []string{name}) != "" && (state == "pending" || state == "rebooting" || state == "failed") {
			out := &reasons.Detail{Code: reasons.CodeMIGConfig, Text: fmt.Sprintf("no node offers %s%s: node %s is being partitioned into MIG devices (%s=%s); wait until its state is success", name, chosen, n.Name, api.LabelMIGState, state)}
			if state == "failed" {
				out.Text = fmt.Sprintf("no node offers %s%s: node %s could not be partitioned into MIG devices (%s=failed); see the log of its MIG manager or node agent", name, chosen, n.Name, api.LabelMIGState)
			}
			return out
		}
	}
	for _, n := range nodes {
		if mig && n.Labels[labelMIGStrategy] == string(gpu.MIGSingle) && strings.HasSuffix(n.Labels[api.LabelProduct], "-MIG-"+profile) {
			return &reasons.Detail{Code: reasons.CodeMIGStrategy, Text: fmt.Sprintf("node %s offers its MIG devices %s as %s, as its MIG strategy is single; ask for %s", n.Name, profile, api.ResourceGPU, api.ResourceGPU)}
		}
	}
	switch {
	case mig && has(api.ResourceMIGPrefix):
		return &reasons.Detail{Code: reasons.CodeMIGProfile, Text: fmt.Sprintf("no GPU%s is partitioned into %s; nodes offer %s: ask for one of these, or have a GPU partitioned", chosen, profile, offers())}
	case name == api.ResourceGPU && has(api.ResourceGPUShared), name == api.ResourceGPUShared && has(api.ResourceGPU):
		return &reasons.Detail{Code: reasons.CodeShareName, Text: fmt.Sprintf("no node%s offers %s, because shares of its GPUs go by another name; nodes offer %s: ask for that", chosen, name, offers())}
	case name == api.ResourceGPU && has(api.ResourceMIGPrefix):
		return &reasons.Detail{Code: reasons.CodeWholeOnMIG, Text: fmt.Sprintf("no node%s offers %s, because their GPUs are partitioned into MIG devices; nodes offer %s: ask for these, or have a GPU made whole", chosen, name, offers())}
	case nvidia && !has("nvidia.com/"):
		if i := slices.IndexFunc(nodes, hasNVIDIACard); i >= 0 {
			return &reasons.Detail{Code: reasons.CodeNotOffered, Text: fmt.Sprintf("node %s has an NVIDIA GPU, and offers no %s; check its driver and device plugin (kubectl get pods -A -o wide | grep device-plugin)", nodes[i].Name, name)}
		}
		if i := slices.IndexFunc(nodes, func(n *v1.Node) bool { return otherVendor(n) != "" }); i >= 0 {
			return &reasons.Detail{Code: reasons.CodeVendor, Text: fmt.Sprintf("no node offers %s; nodes offer %s, of another vendor: use an image for it, and ask for that", name, otherVendor(nodes[i]))}
		}
	case strings.HasPrefix(name, "amd.com/"), strings.HasPrefix(name, "gpu.intel.com/"), strings.HasPrefix(name, "habana.ai/"):
		return &reasons.Detail{Code: reasons.CodeVendor}
	}
	return nil
}

// hasNVIDIACard reports whether Node Feature Discovery has found a card of NVIDIA.
func hasNVIDIACard(n *v1.Node) bool {
	for _, class := range []string{"pci-10de", "pci-0300_10de", "pci-0302_10de"} {
		if n.Labels["feature.node.kubernetes.io/"+class+".present"] == "true" {
			return true
		}
	}
	return n.Labels["nvidia.com/gpu.present"] == "true"
}

// otherVendor is a GPU resource that is not NVIDIA's, of which a node has some.
func otherVendor(n *v1.Node) string {
	for _, name := range []v1.ResourceName{"amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi"} {
		if q := n.Status.Capacity[name]; q.Sign() > 0 {
			return string(name)
		}
	}
	return ""
}

// taintDetail tells apart what keeps a pod off nodes by a taint: it tolerates the key with
// another value or effect, or the nodes are reserved.
func taintDetail(pod *v1.Pod, taint string) *reasons.Detail {
	key, _, _ := strings.Cut(taint, ":")
	key, _, _ = strings.Cut(key, "=")
	for i := range pod.Spec.Tolerations {
		if tol := &pod.Spec.Tolerations[i]; tol.Key == key {
			has := fmt.Sprintf("%s=%s:%s", tol.Key, tol.Value, cmp.Or(string(tol.Effect), "any effect"))
			if tol.Operator == v1.TolerationOpExists {
				has = fmt.Sprintf("%s:%s", tol.Key, cmp.Or(string(tol.Effect), "any effect"))
			}
			return &reasons.Detail{Code: reasons.CodeTaintValue, Text: fmt.Sprintf("it tolerates the taint %s, and the nodes that would do have %s; change the toleration to that", has, taint)}
		}
	}
	last := key[strings.LastIndex(key, "/")+1:]
	for _, word := range []string{"dedicated", "reserved", "team", "tenant", "owner", "control-plane", "master"} {
		if strings.Contains(last, word) {
			return &reasons.Detail{Code: reasons.CodeReserved}
		}
	}
	return nil
}

// driverDetail is that the driver of a node does not answer: all its GPUs are unhealthy,
// and no Xid says why.
func (t *Cluster) driverDetail(c *reasons.Cause) *reasons.Detail {
	for _, name := range c.Nodes {
		view := t.viewOf(name)
		if len(view.GPUs) == 0 || slices.ContainsFunc(view.GPUs, func(g devices.GPU) bool { return g.Healthy || g.Xid > 0 }) {
			return nil
		}
	}
	return &reasons.Detail{Code: reasons.CodeDriver, Text: fmt.Sprintf("all GPUs of %s are unhealthy, and no Xid says why: the driver does not answer there; see the node agent's log and nvidia-smi on the node", strings.Join(c.Nodes, ", "))}
}
