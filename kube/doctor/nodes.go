package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/request"
)

// mostKinds is how many kinds of nodes are told one by one.
const mostKinds = 12

// gpuNodes counts the nodes that offer GPUs, and tells of each kind of them once:
// equal resources, products, driver and CUDA.
func (e *examined) gpuNodes() []finding.Finding {
	const name = "gpu-nodes"
	if len(e.offering) == 0 && len(e.dra.Devices) > 0 {
		return []finding.Finding{warn(name, fmt.Sprintf("no node offers GPUs as resources; %s %s them to claims", count(len(e.dra.Devices), "node"), verb(len(e.dra.Devices), "offers", "offer")),
			"pods get them by spec.resourceClaims; for limits of nvidia.com/gpu, and for `berth nodes`, run a device plugin instead")}
	}
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
func describe(n devices.Node, node *v1.Node) string {
	var resources []string
	for _, r := range sortedKeys(node.Status.Capacity) {
		if q := node.Status.Capacity[r]; request.IsGPU(string(r)) && !q.IsZero() {
			resources = append(resources, fmt.Sprintf("%s %d", r, q.Value()))
		}
	}
	models := map[string]int{}
	for _, g := range n.GPUs {
		models[g.Product]++
	}
	var products []string
	for _, p := range sortedKeys(models) {
		if p == devices.UnknownUUID {
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

// verb is the form for one or for many.
func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
