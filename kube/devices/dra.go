package devices

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"berth.dev/berth/kube/request"
)

// DRADriver is the name under which NVIDIA's DRA driver offers GPUs and MIG devices. It
// has another for NVLink domains, which are none.
const DRADriver = "gpu.nvidia.com"

// DRA is what NVIDIA's DRA driver offers to claims in a cluster. The zero value is
// nothing.
type DRA struct {
	// Devices counts GPUs and MIG devices by the name of their node; at least 1.
	Devices map[string]int
	// Resources are the GPU resources that device classes name, sorted: kube-scheduler
	// makes claims for pods that request them (KEP-5004), and Berth's scheduler does not.
	Resources []string
	// Berth says that Berth's scheduler runs in the cluster.
	Berth bool
}

// ReadDRA reads the slices and classes of a cluster, in any order. Of a pool that is
// being renewed the newest generation counts.
func ReadDRA(offers []*resourcev1.ResourceSlice, classes []*resourcev1.DeviceClass) DRA {
	newest := map[string]int64{}
	for _, s := range offers {
		if s.Spec.Driver == DRADriver {
			newest[s.Spec.Pool.Name] = max(newest[s.Spec.Pool.Name], s.Spec.Pool.Generation)
		}
	}
	out := DRA{Devices: map[string]int{}}
	for _, s := range offers {
		if s.Spec.Driver == DRADriver && s.Spec.NodeName != nil && len(s.Spec.Devices) > 0 && s.Spec.Pool.Generation == newest[s.Spec.Pool.Name] {
			out.Devices[*s.Spec.NodeName] += len(s.Spec.Devices)
		}
	}
	for _, c := range classes {
		if name := c.Spec.ExtendedResourceName; name != nil && request.IsGPU(*name) && !slices.Contains(out.Resources, *name) {
			out.Resources = append(out.Resources, *name)
		}
	}
	slices.Sort(out.Resources)
	return out
}

// Only returns how many devices a node offers to claims alone: it offers no GPU as a
// resource. It is 0 for any other node.
func (d *DRA) Only(n *v1.Node) int {
	if GPUNode(n) {
		return 0
	}
	return d.Devices[n.Name]
}

// Stock reports whether kube-scheduler makes claims for pods that request a resource, and
// Berth's scheduler, which does not, is not there.
func (d *DRA) Stock(resource string) bool {
	return !d.Berth && slices.Contains(d.Resources, resource)
}
