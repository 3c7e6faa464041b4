package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube"
)

// mostKinds is how many kinds of nodes are told one by one.
const mostKinds = 12

// gpuNodes counts the nodes that offer GPUs, and tells of each kind of them once:
// equal resources, products, driver and CUDA.
func (e *examined) gpuNodes() []finding.Finding {
	const name = "gpu-nodes"
	if len(e.offering) == 0 {
		do := "add a node with NVIDIA GPUs and a device plugin: docs/node.md; without GPUs, `berth up` simulates some"
		if len(e.hidden) > 0 {
			do = "see unserved below"
		}
		return []finding.Finding{fail(name, fmt.Sprintf("no node offers GPUs; the cluster has %s", count(len(e.Nodes), "node")), do)}
	}
	total, made := 0, 0
	groups := map[string][]string{}
	for _, n := range e.offering {
		node := e.byName[n.Name]
		total += n.Physical
		if simulated(node) {
			made++
		}
		groups[describe(n, node)] = append(groups[describe(n, node)], n.Name)
	}
	seen := fmt.Sprintf("%d of %s: %s", len(e.offering), count(len(e.Nodes), "node"), count(total, "GPU"))
	if made > 0 {
		seen += fmt.Sprintf("; %d simulated by berth up", made)
	}
	out := []finding.Finding{ok(name, "%s", seen)}
	kinds := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(groups[b]), len(groups[a])), cmp.Compare(groups[a][0], groups[b][0]))
	})
	for i, k := range kinds {
		if i == mostKinds {
			out = append(out, ok("gpus", "and %s more; `berth nodes` shows each node", count(len(kinds)-i, "kind")))
			break
		}
		slices.Sort(groups[k])
		each := ""
		if len(groups[k]) > 1 {
			each = " each"
		}
		out = append(out, ok("gpus", "%s%s: %s", few(groups[k]), each, k))
	}
	return out
}

// describe is what a node offers: resources, products, driver and CUDA level.
func describe(n kube.Node, node *v1.Node) string {
	var resources []string
	for _, r := range sortedKeys(node.Status.Capacity) {
		if q := node.Status.Capacity[r]; kube.GPUResource(string(r)) && !q.IsZero() {
			resources = append(resources, fmt.Sprintf("%s %d", r, q.Value()))
		}
	}
	models := map[string]int{}
	for _, g := range n.GPUs {
		models[g.Product]++
	}
	var products []string
	for _, p := range sortedKeys(models) {
		if p == kube.UnknownUUID {
			products = append(products, fmt.Sprintf("%d x unknown model", models[p]))
			continue
		}
		products = append(products, fmt.Sprintf("%d x %s", models[p], gpu.ShortName(p)))
	}
	return fmt.Sprintf("%s; %s; %s", strings.Join(products, ", "), strings.Join(resources, ", "), versions(node))
}

// versions is the driver of a node and the CUDA that it gives.
func versions(n *v1.Node) string {
	d, c := driverOf(n), cudaOf(n)
	switch {
	case d == "" && c == "":
		return "driver unknown"
	case c == "":
		return "driver " + d
	}
	return "driver " + cmp.Or(d, "unknown") + ", CUDA " + c
}

// driverOf reads GPU Feature Discovery's label, in today's and yesterday's spelling.
func driverOf(n *v1.Node) string {
	if full := n.Labels["nvidia.com/cuda.driver-version.full"]; full != "" {
		return full
	}
	return joined(n, "nvidia.com/cuda.driver.major", "nvidia.com/cuda.driver.minor", "nvidia.com/cuda.driver.rev")
}

// cudaOf is the newest CUDA that the driver of a node gives.
func cudaOf(n *v1.Node) string {
	if full := n.Labels["nvidia.com/cuda.runtime-version.full"]; full != "" {
		return full
	}
	return joined(n, "nvidia.com/cuda.runtime.major", "nvidia.com/cuda.runtime.minor")
}

func joined(n *v1.Node, keys ...string) string {
	var parts []string
	for _, k := range keys {
		if v := n.Labels[k]; v != "" {
			parts = append(parts, v)
		}
	}
	return strings.Join(parts, ".")
}

// devices finds GPUs that are there and that no pod can get.
func (e *examined) devices() []finding.Finding {
	var gone, short []string
	for _, n := range e.offering {
		node := e.byName[n.Name]
		capacity, allocatable, texts := int64(0), int64(0), []string{}
		for _, r := range sortedKeys(node.Status.Capacity) {
			if !kube.GPUResource(string(r)) || r == api.ResourceGPUMemory {
				continue
			}
			has, gives := node.Status.Capacity[r], node.Status.Allocatable[r]
			capacity, allocatable = capacity+has.Value(), allocatable+gives.Value()
			if gives.Value() < has.Value() {
				texts = append(texts, fmt.Sprintf("%d of %d %s", gives.Value(), has.Value(), r))
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

// xids names the GPUs that are unhealthy and why, where somebody has told it.
func xids(n kube.Node) string {
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
	var open, nodes, strays []string
	for _, n := range e.offering {
		if _, kept := kube.Untolerated(e.byName[n.Name], nil); kept {
			continue
		}
		open = append(open, n.Name)
		before := len(strays)
		for _, p := range e.on[n.Name] {
			if kube.Stray(p) {
				strays = append(strays, p.Namespace+"/"+p.Name)
			}
		}
		if len(strays) > before {
			nodes = append(nodes, n.Name)
		}
	}
	slices.Sort(strays)
	switch {
	case len(open) == 0:
		return []finding.Finding{ok(name, "every node with GPUs keeps other pods off")}
	case len(strays) == 0:
		return []finding.Finding{ok(name, "%s with GPUs %s no taint, and no pod without GPUs runs there: %s", count(len(open), "node"), verb(len(open), "has", "have"), few(open))}
	}
	return []finding.Finding{warn(name,
		fmt.Sprintf("%s with GPUs %s no taint and %s that %s for no GPU: %s (%s)", count(len(nodes), "node"), verb(len(nodes), "has", "have"),
			count(len(strays), "pod"), verb(len(strays), "asks", "ask"), few(nodes), few(strays)),
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

// verb is the form for one or for many.
func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
