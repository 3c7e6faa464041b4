package kube

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
)

// GPUResource tells whether a resource is GPUs, in any of the forms that
// Berth reads: whole, shared, a MIG profile, or memory of one GPU.
func GPUResource(name string) bool {
	switch name {
	case api.ResourceGPU, api.ResourceGPUShared, api.ResourceGPUMemory:
		return true
	}
	return strings.HasPrefix(name, api.ResourceMIGPrefix)
}

// counts is an amount of each GPU resource, in the resource's own unit.
type counts map[string]int64

// containerRequest is what one container asks for. An extended resource has
// equal requests and limits; the API server fills in the one from the other.
func containerRequest(c *v1.Container) counts {
	var out counts
	for _, list := range []v1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
		for name, q := range list {
			if n := q.Value(); n > 0 && GPUResource(string(name)) {
				if out == nil {
					out = counts{}
				}
				out[string(name)] = n
			}
		}
	}
	return out
}

func sidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// Request is the GPU resources that a pod holds from the time it is bound:
// for each, the greater of what its containers and sidecars ask for together
// and what any one init container asks for with the sidecars before it, as the
// scheduler counts. It is nil for a pod that asks for no GPU.
func Request(pod *v1.Pod) map[string]int64 {
	var sum, most counts
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		want := containerRequest(c)
		if len(want) == 0 {
			continue
		}
		if sidecar(c) {
			sum = sum.plus(want)
			continue
		}
		for name, n := range want {
			most = most.atLeast(name, n+sum[name])
		}
	}
	for i := range pod.Spec.Containers {
		sum = sum.plus(containerRequest(&pod.Spec.Containers[i]))
	}
	for name, n := range most {
		sum = sum.atLeast(name, n)
	}
	return sum
}

func (c counts) plus(more counts) counts {
	for name, n := range more {
		if c == nil {
			c = counts{}
		}
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
