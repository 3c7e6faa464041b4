package request

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/sharing"
)

// IsGPU reports whether a resource is GPUs, in any of the forms that
// Berth reads: whole, shared, a MIG profile, memory of one GPU, or a share in
// the spelling of HAMi or Volcano.
func IsGPU(name string) bool {
	switch name {
	case api.ResourceGPU, api.ResourceGPUShared, api.ResourceGPUMemory:
		return true
	}
	return strings.HasPrefix(name, api.ResourceMIGPrefix) || IsForeignShare(name)
}

// counts is an amount of each GPU resource, in the resource's own unit.
type counts map[string]int64

// ContainerAmounts is what one container's resources say of GPUs. An extended
// resource has equal requests and limits; the API server fills in the one from
// the other.
func ContainerAmounts(c *v1.Container) counts {
	var out counts
	for _, list := range []v1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
		for name, q := range list {
			if !IsGPU(string(name)) {
				continue
			}
			if n := Amount(&q, MostAsked); n > 0 {
				if out == nil {
					out = counts{}
				}
				out[string(name)] = n
			}
		}
	}
	return out
}

// oneAmount is ContainerAmounts where that is one resource, as of most, in no spelling of others.
func oneAmount(c *v1.Container) (name string, n int64, ok bool) {
	for _, list := range [...]v1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
		for resource, q := range list {
			if !IsGPU(string(resource)) {
				continue
			}
			amount := Amount(&q, MostAsked)
			switch {
			case amount <= 0:
			case name != "" && name != string(resource) || IsForeignShare(string(resource)):
				return "", 0, false
			default:
				name, n = string(resource), amount
			}
		}
	}
	return name, n, n > 0
}

// containerAsks is what one container of a pod asks for, by resource. GPU memory
// beside nvidia.com/gpu asks for whole GPUs with at least that memory.
func containerAsks(pod *v1.Pod, c *v1.Container) []sharing.Ask {
	var out []sharing.Ask
	if name, n, ok := oneAmount(c); ok {
		out = []sharing.Ask{{Resource: name, Count: n}}
	} else {
		out = severalAsks(ContainerAmounts(c))
	}
	if a, container, ok := kaiAsk(pod); ok && container == c.Name {
		out = append(out, a)
	}
	return out
}

// severalAsks is what amounts ask for, by resource. It changes want.
func severalAsks(want counts) []sharing.Ask {
	out := foldSpellings(want)
	least := int64(0)
	if want[api.ResourceGPU] > 0 {
		least = want[api.ResourceGPUMemory]
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch {
		case name == api.ResourceGPUMemory && least > 0:
		case name == api.ResourceGPU:
			out = append(out, sharing.Ask{Resource: name, Count: want[name], LeastGiB: least})
		default:
			out = append(out, sharing.Ask{Resource: name, Count: want[name]})
		}
	}
	return out
}

// OfContainer is what one container of a pod asks for: of shares in the
// spelling of others how many there are, of all else the resource's own unit.
func OfContainer(pod *v1.Pod, c *v1.Container) map[string]int64 {
	out := ContainerAmounts(c)
	fold := func(a sharing.Ask) {
		if out == nil {
			out = counts{}
		}
		out[a.Resource] += a.Count
	}
	for _, a := range foldSpellings(out) {
		fold(a)
	}
	if a, container, ok := kaiAsk(pod); ok && container == c.Name {
		fold(a)
	}
	return out
}

// IsSidecar reports whether an init container keeps running beside the others.
func IsSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// Of is the GPU resources that a pod holds from the time it is bound:
// for each, the greater of what its containers and sidecars ask for together
// and what any one init container asks for with the sidecars before it, as the
// scheduler counts. It is nil for a pod that asks for no GPU.
//
// Shares in the spelling of KAI, HAMi or Volcano are there under the name that
// says their size, such as "gpu-fraction" or "nvidia.com/gpumem", and count how
// many they are; Parts has their sizes.
func Of(pod *v1.Pod) map[string]int64 {
	var sum, most counts
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		want := OfContainer(pod, c)
		if len(want) == 0 {
			continue
		}
		if IsSidecar(c) {
			sum = sum.plus(want)
			continue
		}
		for name, n := range want {
			most = most.atLeast(name, n+sum[name])
		}
	}
	for i := range pod.Spec.Containers {
		sum = sum.plus(OfContainer(pod, &pod.Spec.Containers[i]))
	}
	for name, n := range most {
		sum = sum.atLeast(name, n)
	}
	return sum
}

// OfOne is Of for a pod that has one container, which asks for one resource, in no spelling of others; ok is false for the rest.
func OfOne(pod *v1.Pod) (name string, n int64, ok bool) {
	if len(pod.Spec.InitContainers) > 0 || len(pod.Spec.Containers) != 1 {
		return "", 0, false
	}
	if _, _, shares := kaiAsk(pod); shares {
		return "", 0, false
	}
	return oneAmount(&pod.Spec.Containers[0])
}

// AsksForGPUs reports whether a pod asks for any GPU: whether Of returns something.
func AsksForGPUs(pod *v1.Pod) bool {
	_, share, shares := kaiAsk(pod)
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if shares && list[i].Name == share || asksForGPUs(&list[i]) {
				return true
			}
		}
	}
	return false
}

// asksForGPUs reports whether a container's resources ask for any GPU.
func asksForGPUs(c *v1.Container) bool {
	for _, list := range []v1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
		for name, q := range list {
			if IsGPU(string(name)) && Amount(&q, MostAsked) > 0 {
				return true
			}
		}
	}
	return false
}

// plus adds counts. It may return, and change, either.
func (c counts) plus(more counts) counts {
	if c == nil {
		return more
	}
	for name, n := range more {
		c[name] += n
	}
	return c
}

func (c counts) atLeast(name string, n int64) counts {
	if c == nil {
		c = counts{}
	}
	c[name] = max(c[name], n)
	return c
}
