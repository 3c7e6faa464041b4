package exporter

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

type migDevice = gpu.MIGDevice

// Holder is one container that holds devices: as the agent's own table has it, or
// as the kubelet tells.
type Holder struct {
	PodUID                    string // "" is unknown
	Namespace, Pod, Container string
	Devices                   []sharing.Device // UUID and ID count, and MilliGPU where it is known
	Committed                 bool
}

// resolve finds the GPU or MIG device that a device ID of the kubelet's stands for,
// and whether it is a share of it. It knows the forms of NVIDIA's plugin: a UUID,
// UUID::n, and the old MIG-GPU-UUID/gi/ci, and of GKE's: nvidia0, nvidia0/gi3, each
// also with /vgpuN.
func resolve(s *nvml.Snapshot, id string) (uuid string, share, ok bool) {
	if strings.HasPrefix(id, "nvidia") {
		return resolveGKE(s, id)
	}
	uuid, _, _ = sharing.ParseID(id)
	share = uuid != id
	if _, _, ok := s.Find(uuid); ok {
		return uuid, share, true
	}
	if old, ok := strings.CutPrefix(uuid, "MIG-GPU-"); ok {
		parts := strings.Split(old, "/")
		if g, _, ok := s.Find("GPU-" + parts[0]); ok && len(parts) == 3 {
			if m := instance(g, parts[1]); m != nil && strconv.Itoa(m.CI) == parts[2] {
				return m.UUID, share, true
			}
		}
	}
	return "", false, false
}

func resolveGKE(s *nvml.Snapshot, id string) (uuid string, share, ok bool) {
	parts := strings.Split(id, "/")
	if last := len(parts) - 1; strings.HasPrefix(parts[last], "vgpu") {
		share, parts = true, parts[:last]
	}
	i := slices.IndexFunc(s.GPUs, func(g nvml.GPU) bool { return "nvidia"+strconv.Itoa(g.Minor) == parts[0] })
	switch {
	case i < 0 || len(parts) > 2 || len(parts) == 0:
		return "", false, false
	case len(parts) == 1:
		return s.GPUs[i].UUID, share, true
	}
	if m := instance(s.GPUs[i], strings.TrimPrefix(parts[1], "gi")); m != nil && strings.HasPrefix(parts[1], "gi") {
		return m.UUID, share, true
	}
	return "", false, false
}

// instance finds the MIG device of a GPU instance.
func instance(g nvml.GPU, gi string) *migDevice {
	for i := range g.MIG {
		if strconv.Itoa(g.MIG[i].GI) == gi {
			return &g.MIG[i]
		}
	}
	return nil
}

// gpuResource reports whether a resource stands for GPUs: those of NVIDIA, with
// any name that sharing gives them, and more that are named.
func gpuResource(name string, more []string) bool {
	return strings.HasPrefix(name, "nvidia.com/") || slices.Contains(more, name)
}

// beside returns the holders of the kubelet's whose containers are not in the agent's
// own table.
func beside(own, kubelet []Holder) []Holder {
	type container struct{ namespace, pod, container string }
	mine := make(map[container]bool, len(own))
	for i := range own {
		h := &own[i]
		mine[container{h.Namespace, h.Pod, h.Container}] = true
	}
	out := make([]Holder, 0, len(kubelet))
	for i := range kubelet {
		if h := &kubelet[i]; !mine[container{h.Namespace, h.Pod, h.Container}] {
			out = append(out, *h)
		}
	}
	return out
}

// podsOf lists who holds each device, by UUID, from the agent's own table and what
// the kubelet has beside it, each in order of namespace, pod and container. An init container that hands its device on to the next of its pod
// is left out: the last one holds it.
func podsOf(own, kubelet []Holder) map[string][]Pod {
	type entry struct {
		id  string
		pod Pod
	}
	by := map[string][]entry{}
	add := func(h *Holder) {
		for _, d := range h.Devices {
			p := Pod{Namespace: h.Namespace, Name: h.Pod, Container: h.Container, UID: h.PodUID, Share: d.ID != "" && d.ID != d.UUID, Committed: h.Committed, MilliGPU: d.MilliGPU}
			id := cmp.Or(d.ID, d.UUID)
			at := slices.IndexFunc(by[d.UUID], func(e entry) bool {
				return e.id == id && e.pod.Namespace == p.Namespace && e.pod.Name == p.Name
			})
			if at >= 0 {
				by[d.UUID][at].pod = p
				continue
			}
			same := slices.IndexFunc(by[d.UUID], func(e entry) bool {
				return e.pod.Namespace == p.Namespace && e.pod.Name == p.Name && e.pod.Container == p.Container
			})
			if same >= 0 { // two shares of one GPU in one container: one series
				by[d.UUID][same].pod.MilliGPU += p.MilliGPU
				continue
			}
			by[d.UUID] = append(by[d.UUID], entry{id, p})
		}
	}
	for i := range own {
		add(&own[i])
	}
	for i := range kubelet {
		add(&kubelet[i])
	}
	out := make(map[string][]Pod, len(by))
	for uuid, list := range by {
		for _, e := range list {
			out[uuid] = append(out[uuid], e.pod)
		}
		slices.SortFunc(out[uuid], func(a, b Pod) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Container, b.Container))
		})
	}
	return out
}
