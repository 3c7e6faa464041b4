package doctor

import (
	"fmt"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/request"
)

// gpuDriver is the name under which NVIDIA's DRA driver offers GPUs and MIG devices. It
// has another for NVLink domains, which are none.
const gpuDriver = "gpu.nvidia.com"

// claimable counts what NVIDIA's DRA driver offers, by node. Of a pool that is being
// renewed the newest generation counts.
func claimable(slices []*resourcev1.ResourceSlice) map[string]int {
	newest := map[string]int64{}
	for _, s := range slices {
		if s.Spec.Driver == gpuDriver {
			newest[s.Spec.Pool.Name] = max(newest[s.Spec.Pool.Name], s.Spec.Pool.Generation)
		}
	}
	out := map[string]int{}
	for _, s := range slices {
		if s.Spec.Driver == gpuDriver && s.Spec.NodeName != nil && len(s.Spec.Devices) > 0 && s.Spec.Pool.Generation == newest[s.Spec.Pool.Name] {
			out[*s.Spec.NodeName] += len(s.Spec.Devices)
		}
	}
	return out
}

// claims tells of GPUs that are offered by dynamic resource allocation, and finds nodes
// that offer the same ones as resources too: neither side knows what the other gave.
func (e *examined) claims() []finding.Finding {
	const name = "dra"
	if len(e.claimable) == 0 {
		return nil
	}
	total := 0
	for _, n := range e.claimable {
		total += n
	}
	out := []finding.Finding{ok(name, "%s of %s on %s, for claims", count(total, "device"), gpuDriver, count(len(e.claimable), "node"))}
	var both []string
	for _, n := range e.offering {
		if e.claimable[n.Name] > 0 {
			both = append(both, n.Name)
		}
	}
	if len(both) > 0 {
		out = append(out, fail(name, fmt.Sprintf("%s %s GPUs to claims and as resources, so that two pods may get the same one: %s",
			count(len(both), "node"), verb(len(both), "offers", "offer"), few(both)),
			"turn one of the two off there: the DRA driver's GPUs, or the device plugin"))
	}
	if f, some := e.unclaimed(); some {
		out = append(out, f)
	}
	return out
}

// unclaimed counts what only claims get, although a device class names it as a GPU
// resource: kube-scheduler makes claims for pods that request the resource (KEP-5004),
// and Berth's scheduler does not.
func (e *examined) unclaimed() (finding.Finding, bool) {
	names, devices, nodes := map[string]bool{}, 0, []string(nil)
	for _, c := range e.Classes {
		if name := c.Spec.ExtendedResourceName; name != nil && request.IsGPU(*name) {
			names[*name] = true
		}
	}
	for _, node := range sortedKeys(e.claimable) {
		if n := e.byName[node]; n != nil && !gives(n) {
			devices, nodes = devices+e.claimable[node], append(nodes, node)
		}
	}
	if !e.Guarded || len(names) == 0 || len(nodes) == 0 {
		return finding.Finding{}, false
	}
	resources := strings.Join(sortedKeys(names), ", ")
	return warn("dra", fmt.Sprintf("%s on %s (%s) %s for claims only: Berth's scheduler gives none to pods that request %s, although a device class names it",
		count(devices, "device"), count(len(nodes), "node"), few(nodes), verb(devices, "is", "are"), resources),
		"request them by spec.resourceClaims, have kube-scheduler schedule those pods, or run a device plugin there"), true
}
