package sharing

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"berth.dev/berth/core/gpu"
)

// Devices returns everything a device plugin told s offers for gpus, in the
// order of resource name, GPU index, start of the MIG device, and replica.
//
// Strategy none offers every GPU whole, even with MIG on. Strategy single
// offers MIG devices in place of their GPUs, as nvidia.com/gpu. Strategy mixed
// offers GPUs with MIG off as nvidia.com/gpu and each MIG profile as a resource
// of its own. A GPU with MIG on and nothing cut offers nothing then.
//
// Replicas divide compute, rounded down, of the devices that s.Devices names. By MPS they divide memory too; by
// time-slicing each share may use all of it.
//
// Errors are those of Check, and a MIG device on a product whose number of
// compute slices is not known.
//
// Source: discovery and replication in NVIDIA's device plugin, version 0.20.
func Devices(gpus []gpu.GPU, s gpu.Sharing) ([]Device, error) {
	if err := Check(gpus, s); err != nil {
		return nil, err
	}
	var out []Device
	for _, g := range gpus {
		d := Device{
			Resource: gpu.ResourceGPU, UUID: g.UUID, GPU: g.Index, MilliGPU: 1000,
			MemoryBytes: g.MemoryBytes, Healthy: g.Healthy, Clique: g.Clique, NUMANode: g.NUMANode,
		}
		if offeredWhole(g, s) {
			out = replicate(out, d, s, strconv.Itoa(g.Index), g.UUID)
			continue
		}
		p, ok := gpu.Find(g.Product)
		if len(g.MIG) > 0 && (!ok || p.ComputeSlices == 0) {
			return nil, fmt.Errorf("GPU %d: compute slices of %q are not known, so its MIG devices cannot be offered; use migStrategy none", g.Index, g.Product)
		}
		for j, m := range g.MIG {
			d := d
			d.UUID, d.Profile, d.MemoryBytes, d.Healthy = m.UUID, m.Profile, m.MemoryBytes, g.Healthy && !m.Unhealthy
			d.MilliGPU = 1000 * int64(m.Slices) / int64(p.ComputeSlices)
			d.Resource = migResource(m, s)
			out = replicate(out, d, s, migNames(g, j)...)
		}
	}
	// Appended GPU by GPU in order of start; only resources are out of order.
	slices.SortStableFunc(out, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.GPU, b.GPU))
	})
	return out, nil
}

// offeredWhole reports whether a GPU is offered as it is, and not its MIG devices.
func offeredWhole(g gpu.GPU, s gpu.Sharing) bool {
	return !g.MIGEnabled || s.MIGStrategy == gpu.MIGNone || s.MIGStrategy == ""
}

// migResource is what a MIG device is offered as.
func migResource(m gpu.MIGDevice, s gpu.Sharing) string {
	if s.MIGStrategy == gpu.MIGMixed {
		return gpu.MIGResource(m.Profile)
	}
	return gpu.ResourceGPU
}

// migNames are what Sharing.Devices may call MIG device j of g.
func migNames(g gpu.GPU, j int) []string {
	index := strconv.Itoa(g.Index)
	return []string{index, g.UUID, index + ":" + strconv.Itoa(j), g.MIG[j].UUID}
}

// shares is how many devices Devices makes of one GPU.
func shares(g gpu.GPU, s gpu.Sharing) int {
	if offeredWhole(g, s) {
		return replicas(s, gpu.ResourceGPU, strconv.Itoa(g.Index), g.UUID)
	}
	n := 0
	for j, m := range g.MIG {
		n += replicas(s, migResource(m, s), migNames(g, j)...)
	}
	return n
}

// replicate appends d, or its shares. names are what s.Devices may call it.
func replicate(out []Device, d Device, s gpu.Sharing, names ...string) []Device {
	n := replicas(s, d.Resource, names...)
	if n < 2 {
		d.ID = d.UUID
		return append(out, d)
	}
	if s.RenameByDefault {
		d.Resource = gpu.SharedResource(d.Resource)
	}
	d.MilliGPU /= int64(n)
	if s.Strategy == gpu.SharingMPS {
		d.MemoryBytes /= int64(n)
	}
	for i := range n {
		d.ID, d.Replica = ShareID(d.UUID, i), i
		out = append(out, d)
	}
	return out
}

// replicas returns the shares of a device of a resource, by its name before
// renaming; 1 is unshared.
func replicas(s gpu.Sharing, resource string, names ...string) int {
	if s.Strategy == "" || s.Strategy == gpu.SharingNone {
		return 1
	}
	only, some := s.Devices[resource]
	if some && !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(only, name) }) {
		return 1
	}
	return max(1, s.Replicas[resource])
}

// Capacity counts devices by resource.
func Capacity(devs []Device) map[string]int64 { return count(devs, false) }

// Allocatable counts healthy devices by resource. A resource none of whose
// devices is healthy is there with 0.
func Allocatable(devs []Device) map[string]int64 { return count(devs, true) }

func count(devs []Device, healthy bool) map[string]int64 {
	out := map[string]int64{}
	for _, d := range devs {
		n := int64(1)
		if healthy && !d.Healthy {
			n = 0
		}
		out[d.Resource] += n
	}
	return out
}

// MemoryGiB is the capacity of nvidia.com/gpu-memory: the whole GiB of each GPU
// that is unshared (no replicas, MIG off), summed.
func MemoryGiB(gpus []gpu.GPU, s gpu.Sharing) int64 { return memoryGiB(gpus, s, false) }

// HealthyMemoryGiB is what of MemoryGiB is allocatable: that of healthy GPUs.
func HealthyMemoryGiB(gpus []gpu.GPU, s gpu.Sharing) int64 { return memoryGiB(gpus, s, true) }

func memoryGiB(gpus []gpu.GPU, s gpu.Sharing, healthy bool) int64 {
	var sum int64
	for _, g := range gpus {
		if unshared(g, s) && (g.Healthy || !healthy) {
			sum += g.MemoryBytes / GiB
		}
	}
	return sum
}

// unshared GPUs may be shared by memory.
func unshared(g gpu.GPU, s gpu.Sharing) bool {
	return !g.MIGEnabled && replicas(s, gpu.ResourceGPU, strconv.Itoa(g.Index), g.UUID) == 1
}
