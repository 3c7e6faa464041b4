package doctor

import (
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"

	"berth.dev/berth/internal/finding"
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
	return out
}
