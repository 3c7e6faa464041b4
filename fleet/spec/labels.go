package spec

import (
	"maps"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

// aliases are labels that neither the kubelet nor NVIDIA's software sets, but
// that tutorials select GPU nodes by. A label that a tutorial tells the reader
// to set is not among them.
var aliases = map[string]string{"accelerator": "nvidia-gpu"}

// Labels returns all labels of n: those a kubelet and a cloud set, those of
// GPU Feature Discovery, the aliases, and over them the node's own.
func Labels(n Node) map[string]string {
	labels := map[string]string{
		v1.LabelHostname:          n.Name,
		v1.LabelArchStable:        "amd64",
		v1.LabelOSStable:          "linux",
		"beta.kubernetes.io/arch": "amd64",
		"beta.kubernetes.io/os":   "linux",
		api.LabelSimulated:        "true",
	}
	for key, value := range map[string]string{
		v1.LabelInstanceTypeStable:   n.InstanceType,
		v1.LabelTopologyZone:         n.Zone,
		v1.LabelTopologyRegion:       Region(n.Zone),
		"karpenter.sh/capacity-type": string(n.CapacityType),
	} {
		if value != "" {
			labels[key] = value
		}
	}
	if len(n.GPUs) > 0 {
		maps.Copy(labels, aliases)
		maps.Copy(labels, gpu.Labels(n.GPU(), n.Sharing))
	}
	maps.Copy(labels, n.Labels)
	return labels
}

// discovered reports whether GPU Feature Discovery is the one who sets key.
func discovered(key string) bool {
	name, ok := strings.CutPrefix(key, "nvidia.com/")
	if !ok || key == api.LabelMIGConfig || key == api.LabelMIGState {
		return false
	}
	for _, prefix := range []string{"gpu.", "mig-", "mig.", "mps.", "cuda.", "gfd.", "vgpu."} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// Region returns the region of a zone as the clouds name them: us-east-1a is
// in us-east-1, us-central1-a in us-central1, eastus-2 in eastus. A zone of
// another form is its own region.
func Region(zone string) string {
	if i := strings.LastIndexByte(zone, '-'); i > 0 && i == len(zone)-2 {
		if c := zone[i+1]; c >= '0' && c <= '9' && !strings.ContainsAny(zone[:i], "-") || c >= 'a' && c <= 'z' {
			return zone[:i]
		}
	}
	if n := len(zone); n > 1 && zone[n-1] >= 'a' && zone[n-1] <= 'z' && zone[n-2] >= '0' && zone[n-2] <= '9' {
		return zone[:n-1]
	}
	return zone
}

// What a kubelet without reservations keeps back: its default hard eviction
// thresholds, memory.available<100Mi and nodefs.available<10%.
const (
	evictionBytes  = 100 << 20
	ephemeralBytes = 200 << 30
)

// Resources returns the capacity and allocatable resources of n: CPU, memory,
// storage and pods as a kubelet without reservations has them, and the devices
// that its device plugin offers. Unhealthy devices are in the capacity only;
// a resource none of whose devices is healthy is allocatable 0.
//
// It is an error if the GPUs cannot be offered as n.Sharing says.
func Resources(n Node) (capacity, allocatable v1.ResourceList, err error) {
	memory := int64(n.MemoryGiB) << 30
	capacity = v1.ResourceList{
		v1.ResourceCPU:              *resource.NewQuantity(int64(n.CPU), resource.DecimalSI),
		v1.ResourceMemory:           *resource.NewQuantity(memory, resource.BinarySI),
		v1.ResourceEphemeralStorage: *resource.NewQuantity(ephemeralBytes, resource.BinarySI),
		v1.ResourcePods:             *resource.NewQuantity(int64(n.Pods), resource.DecimalSI),
	}
	allocatable = v1.ResourceList{
		v1.ResourceCPU:              capacity[v1.ResourceCPU],
		v1.ResourceMemory:           *resource.NewQuantity(max(0, memory-evictionBytes), resource.BinarySI),
		v1.ResourceEphemeralStorage: *resource.NewQuantity(ephemeralBytes/10*9, resource.BinarySI),
		v1.ResourcePods:             capacity[v1.ResourcePods],
	}
	if len(n.GPUs) == 0 {
		return capacity, allocatable, nil
	}
	gpus, healthy, err := deviceCounts(n)
	if err != nil {
		return nil, nil, err
	}
	for name, count := range gpus {
		capacity[v1.ResourceName(name)] = *resource.NewQuantity(count, resource.DecimalSI)
		allocatable[v1.ResourceName(name)] = *resource.NewQuantity(healthy[name], resource.DecimalSI)
	}
	return capacity, allocatable, nil
}

// deviceCounts returns how many devices of each resource the device plugin of
// n offers, and how many of these are healthy. Whole GiB of unshared GPUs
// count under api.ResourceGPUMemory, where there are any.
func deviceCounts(n Node) (all, healthy map[string]int64, err error) {
	devices, err := sharing.Devices(n.GPUs, n.Sharing)
	if err != nil {
		return nil, nil, err
	}
	all, healthy = map[string]int64{}, map[string]int64{}
	maps.Copy(all, sharing.Capacity(devices))
	maps.Copy(healthy, sharing.Allocatable(devices))
	if gib := sharing.MemoryGiB(n.GPUs, n.Sharing); gib > 0 {
		all[api.ResourceGPUMemory], healthy[api.ResourceGPUMemory] = gib, sharing.HealthyMemoryGiB(n.GPUs, n.Sharing)
	}
	return all, healthy, nil
}
