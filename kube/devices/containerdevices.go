package devices

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/request"
)

// claim is one device that a pod holds, or a number of them that are not known.
type claim struct {
	container string
	resource  string // "" for a committed device: its UUID says what it is
	uuid      string // of a GPU or MIG device; "" is not known
	share     bool   // one of the replicas of the device
	count     int64  // units of resource, where uuid is ""; for memory GiB
	milli     int64  // committed milli-GPU, or of a share by size; 0 is not said
	memory    int64  // bytes, committed or of a share by size; 0 is not said
}

// unitsOf returns what a pod asks for, by resource. GPU memory that a pod asks for beside GPUs only
// says how large they are.
func unitsOf(pod *v1.Pod) map[string]int64 {
	units := request.Of(pod)
	if units[api.ResourceGPUMemory] > 0 && units[api.ResourceGPU] > 0 {
		units[api.ResourceGPUMemory] = 0
		for _, a := range request.Asks(pod) {
			if a.Resource == api.ResourceGPUMemory {
				units[api.ResourceGPUMemory] += a.Count * a.Share.MemoryMiB / 1024
			}
		}
	}
	return units
}

// claims lists what a bound pod holds: for each container the committed
// devices, else the observed ones; then what its request leaves unexplained,
// as units without a device. A device that an init container hands on to the
// containers after it counts once. reported is what the node's agent says of the pod; nil
// is nothing.
func claims(pod *v1.Pod, reported map[string][]sharing.Named) []claim {
	if list := claimsOfOne(pod, reported); list != nil {
		return list
	}
	if !request.AsksForGPUs(pod) {
		return nil
	}
	committed := committedDevices(pod)
	if committed == nil {
		committed = reported
	}
	left := unitsOf(pod)
	var out []claim
	var seen map[string]int // of the devices that are handed on
	if len(pod.Spec.InitContainers) > 0 {
		seen = map[string]int{}
	}
	order := holdOrder(pod)
	for _, c := range order {
		told := knownDevices(committed[c.Name])
		switch {
		case len(told) == 0:
			told = observed(pod, c)
		case len(order) == 1:
			clear(left)
		default:
			for name, n := range request.OfContainer(pod, c.Container) {
				left[name] -= n
			}
		}
		var mine map[string]int
		if seen != nil {
			mine = map[string]int{}
		}
		for _, k := range told {
			if seen != nil {
				key := k.key()
				if mine[key]++; c.init && mine[key] <= seen[key] {
					continue // handed on to a container already counted
				}
			}
			if k.resource != "" {
				left[k.resource] -= k.units()
			}
			k.claim.container = c.Name
			out = append(out, k.claim)
		}
		for key, n := range mine {
			seen[key] = max(seen[key], n)
		}
	}
	return unknown(pod, order, left, out)
}

// claimsOfOne is claims for a pod, as most are, of one container that asks for one resource, and of which the
// kubelet says nothing that counts; nil is that it is not one.
func claimsOfOne(pod *v1.Pod, reported map[string][]sharing.Named) []claim {
	name, n, one := request.OfOne(pod)
	if !one {
		return nil
	}
	c := containerOf{Container: &pod.Spec.Containers[0]}
	devices, committed := commit.CommittedTo(pod, c.Name)
	if !committed {
		devices = reported[c.Name]
	}
	switch {
	case len(devices) > 0:
	case len(observed(pod, c)) > 0:
		return nil
	default:
		return []claim{{container: c.Name, resource: name, count: n}}
	}
	out := make([]claim, 0, len(devices))
	for _, d := range devices {
		out = append(out, claim{container: c.Name, uuid: d.UUID, milli: d.MilliGPU, memory: d.MemoryBytes})
	}
	return out
}

// knownDevice is a claim and the ID that it was told by.
type knownDevice struct {
	claim
	id string
}

func (k knownDevice) key() string { return k.resource + " " + k.id }

func (k knownDevice) units() int64 {
	if k.resource == api.ResourceGPUMemory {
		return max(1, k.memory/gib)
	}
	return 1
}

// containerOf is a container, and whether it is an init container that ends.
type containerOf struct {
	*v1.Container
	init bool
}

// holdOrder lists the containers of a pod: those that run together first, then
// the init containers, whose devices are handed on.
func holdOrder(pod *v1.Pod) []containerOf {
	out := make([]containerOf, 0, len(pod.Spec.Containers)+len(pod.Spec.InitContainers))
	for i := range pod.Spec.Containers {
		out = append(out, containerOf{&pod.Spec.Containers[i], false})
	}
	for _, init := range []bool{false, true} {
		for i := range pod.Spec.InitContainers {
			if c := &pod.Spec.InitContainers[i]; request.IsSidecar(c) != init {
				out = append(out, containerOf{c, init})
			}
		}
	}
	return out
}

// committedDevices reads berth.dev/devices. An annotation that is not what
// Berth's scheduler writes is passed over: the node's own word is next.
func committedDevices(pod *v1.Pod) map[string][]sharing.Named {
	named, err := commit.Committed(pod)
	if err != nil {
		return nil
	}
	return named
}

// knownDevices reads devices that were named by UUID.
func knownDevices(named []sharing.Named) []knownDevice {
	out := make([]knownDevice, 0, len(named))
	for _, d := range named {
		k := knownDevice{id: d.UUID}
		k.uuid, k.milli, k.memory = d.UUID, d.MilliGPU, d.MemoryBytes
		out = append(out, k)
	}
	return out
}

// observed reads what the kubelet says it gave to a container
// (allocatedResourcesStatus, Kubernetes 1.31 and later).
func observed(pod *v1.Pod, c containerOf) []knownDevice {
	lists := [][]v1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses}
	var out []knownDevice
	for _, list := range lists {
		for i := range list {
			if list[i].Name != c.Name {
				continue
			}
			for _, r := range list[i].AllocatedResourcesStatus {
				name := string(r.Name)
				if !request.IsGPU(name) {
					continue
				}
				for _, d := range r.Resources {
					if isPlaceholder(name, string(d.ResourceID)) {
						continue
					}
					out = append(out, parseDevice(name, string(d.ResourceID), request.OfContainer(pod, c.Container)))
				}
			}
		}
	}
	return out
}

// parseDevice reads a device ID, whose forms package sharing knows. If one names memory
// without a size, the size is that of the request.
func parseDevice(resource, id string, want map[string]int64) knownDevice {
	k := knownDevice{id: id}
	if uuid, size, ok := sharing.ParseSizeID(id); ok {
		k.resource, k.uuid, k.milli, k.memory = resource, uuid, size.MilliGPU, min(size.MemoryMiB, 1<<42)<<20
		return k
	}
	uuid, replica, _ := sharing.ParseID(id)
	if resource == api.ResourceGPUMemory {
		uuid, _, _ = strings.Cut(id, "::")
		k.memory = min(want[resource], 1<<32) * gib
	}
	k.resource, k.uuid, k.share = resource, uuid, replica >= 0
	return k
}

// unknown adds to the known claims what left says is held and no device explains. Each resource
// goes to the first container that asks for it and has no known device.
func unknown(pod *v1.Pod, order []containerOf, left map[string]int64, known []claim) []claim {
	out := known
	var few [4]string
	names := slices.AppendSeq(few[:0], maps.Keys(left))
	slices.Sort(names)
	for _, name := range names {
		if left[name] <= 0 {
			continue
		}
		container := ""
		for _, c := range order {
			if len(order) > 1 && request.OfContainer(pod, c.Container)[name] == 0 {
				continue
			}
			has := slices.ContainsFunc(known, func(k claim) bool { return k.container == c.Name })
			if container == "" || !has {
				container = c.Name
			}
			if !has {
				break
			}
		}
		c := claim{container: container, resource: name, count: left[name]}
		if name != api.ResourceGPUMemory && request.IsShareBySize(name) {
			size := sizeOf(pod, name)
			c.milli, c.memory = max(0, size.MilliGPU), min(size.MemoryMiB, 1<<42)<<20
		}
		out = append(out, c)
	}
	return out
}

// sizeOf is the size of the shares that a pod asks for by a name: of several
// containers that do, the first.
func sizeOf(pod *v1.Pod, name string) sharing.ShareSize {
	for _, p := range request.Parts(pod) {
		for _, a := range p.Asks {
			if a.Resource == name {
				return a.Share
			}
		}
	}
	return sharing.ShareSize{}
}

// HeldDevices lists the UUIDs of the GPUs and MIG devices that a bound pod is known
// to hold, committed or observed, sorted, each once. It may list fewer than the pod
// asks for: see Cluster.
func HeldDevices(pod *v1.Pod) []string {
	var out []string
	for _, c := range claims(pod, nil) {
		if c.uuid != "" {
			out = append(out, c.uuid)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// isPlaceholder reports whether a device ID is one of those that Berth's agent shows the
// kubelet in place of devices.
func isPlaceholder(resource, id string) bool { return sharing.PlaceholderNumber(resource, id) >= 0 }
