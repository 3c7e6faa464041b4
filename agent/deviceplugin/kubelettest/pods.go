package kubelettest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// errEnded is the end of a call by the kubelet's own.
var errEnded = errors.New("the kubelet has ended")

// Pod is what a pod asks of devices.
type Pod struct {
	UID, Namespace, Name string
	Init, Containers     []Container
}

// Container is one of its containers.
type Container struct {
	Name    string
	Limits  map[string]int // devices by resource
	Sidecar bool           // an init container that goes on running: its devices are not lent to later ones
}

// Admit gives a pod its devices, as a kubelet does when the pod comes to the
// node. After an error the pod holds nothing and has failed.
func (k *Kubelet) Admit(ctx context.Context, pod Pod) error {
	k.admit.Lock()
	defer k.admit.Unlock()
	k.mu.Lock()
	k.active[pod.UID] = pod
	life := k.life
	k.mu.Unlock()
	reuse := make(map[string]set) // devices of init containers, which have ended by then
	err := func() error {
		for _, c := range pod.Init {
			if err := k.allocate(ctx, life, pod.UID, c, reuse); err != nil {
				return err
			}
			k.lend(pod.UID, c, reuse, !c.Sidecar)
		}
		for _, c := range pod.Containers {
			if err := k.allocate(ctx, life, pod.UID, c, reuse); err != nil {
				return err
			}
			k.lend(pod.UID, c, reuse, false)
		}
		return nil
	}()
	if err != nil {
		k.Remove(pod.UID)
		return fmt.Errorf("UnexpectedAdmissionError: Allocate failed due to %w, which is unexpected", err)
	}
	return nil
}

// lend adds a container's devices to those that later ones of the pod may
// have, or takes them out.
func (k *Kubelet) lend(pod string, c Container, reuse map[string]set, on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for resource := range c.Limits {
		for _, id := range k.held[holder{pod, c.Name, resource}].ids {
			if !on {
				delete(reuse[resource], id)
				continue
			}
			if reuse[resource] == nil {
				reuse[resource] = make(set)
			}
			reuse[resource][id] = true
		}
	}
}

// allocate gets a container its devices of all resources.
func (k *Kubelet) allocate(ctx context.Context, life int, pod string, c Container, reuse map[string]set) error {
	for _, resource := range slices.Sorted(maps.Keys(c.Limits)) {
		ids, err := k.choose(ctx, life, holder{pod, c.Name, resource}, c.Limits[resource], reuse[resource])
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			continue
		}
		k.mu.Lock()
		e := k.ends[resource]
		k.mu.Unlock()
		if e == nil {
			return fmt.Errorf("unknown Device Plugin %s", resource)
		}
		resp, err := (*v1beta1.AllocateResponse)(nil), errStopped(e, resource)
		if e.running() {
			resp, err = e.api.Allocate(ctx, &v1beta1.AllocateRequest{ContainerRequests: []*v1beta1.ContainerAllocateRequest{{DevicesIds: ids}}})
		}
		k.mu.Lock()
		switch {
		case err != nil:
		case len(resp.ContainerResponses) == 0:
			err = errors.New("no containers return in allocation response")
		case !k.lives(life):
			err = errEnded
		}
		if err != nil {
			k.taken = k.inUse()
			k.mu.Unlock()
			return err
		}
		g := grant{ids: ids, numa: make(map[int64][]string), resp: resp.ContainerResponses[0]}
		for _, id := range ids {
			nodes := k.all[resource][id].GetTopology().GetNodes()
			if len(nodes) == 0 {
				g.numa[-1] = append(g.numa[-1], id)
			}
			for _, n := range nodes {
				g.numa[n.ID] = append(g.numa[n.ID], id)
			}
		}
		k.held[holder{pod, c.Name, resource}] = g
		k.writeCheckpoint()
		k.broadcast()
		k.mu.Unlock()
	}
	return nil
}

func (e *endpoint) running() bool { return e.api != nil && e.since().IsZero() }

func errStopped(e *endpoint, resource string) error {
	if e.running() {
		return nil
	}
	return fmt.Errorf("endpoint %s has been stopped", resource)
}

// choose picks the devices of a container; none where it has them already.
func (k *Kubelet) choose(ctx context.Context, life int, h holder, required int, reuse set) ([]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.release()
	healthy, known := k.healthy[h.resource]
	have := k.held[h].ids
	switch {
	case len(have) > 0 && len(have) != required:
		return nil, fmt.Errorf("pod %q container %q changed request for resource %q from %d to %d", h.pod, h.container, h.resource, len(have), required)
	case !known:
		return nil, fmt.Errorf("cannot allocate unregistered device %s", h.resource)
	case len(healthy) == 0:
		return nil, fmt.Errorf("no healthy devices present; cannot allocate unhealthy devices %s", h.resource)
	case slices.ContainsFunc(have, func(id string) bool { return !healthy[id] }):
		return nil, fmt.Errorf("previously allocated devices are no longer healthy; cannot allocate unhealthy devices %s", h.resource)
	case len(have) == required:
		return nil, nil
	}
	if k.taken[h.resource] == nil {
		k.taken[h.resource] = make(set)
	}
	var got []string
	take := func(ids []string) bool {
		for _, id := range ids {
			if len(got) < required && !slices.Contains(got, id) {
				got = append(got, id)
				k.taken[h.resource][id] = true
			}
		}
		return len(got) == required
	}
	if take(k.shuffled(reuse)) {
		return got, nil
	}
	free := make(set)
	for id := range healthy {
		if !k.taken[h.resource][id] {
			free[id] = true
		}
	}
	need := required - len(got)
	if len(free) < need {
		n := len(free)
		k.taken = k.inUse()
		return nil, fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d", h.resource, need, n)
	}
	preferred, err := k.prefer(ctx, h.resource, append(k.shuffled(free), got...), got, required)
	if err == nil && !k.lives(life) {
		err = errEnded // what is taken is counted again, without this choice
	}
	if err != nil {
		return nil, err
	}
	preferred = slices.DeleteFunc(preferred, func(id string) bool { return !free[id] })
	if take(preferred) || take(k.shuffled(free)) {
		return got, nil
	}
	return nil, fmt.Errorf("unexpectedly allocated less resources than required. Requested: %d, Got: %d", required, len(got))
}

// prefer asks the plugin which devices it would choose, if there is a choice.
// It gives up k.mu while it waits, as the kubelet does.
func (k *Kubelet) prefer(ctx context.Context, resource string, available, must []string, size int) ([]string, error) {
	e := k.ends[resource]
	if e == nil {
		return nil, fmt.Errorf("endpoint not found in cache for a registered resource: %s", resource)
	}
	if !e.options.GetGetPreferredAllocationAvailable() || len(available) <= size {
		return nil, nil
	}
	if err := errStopped(e, resource); err != nil {
		return nil, err
	}
	k.mu.Unlock()
	resp, err := e.api.GetPreferredAllocation(ctx, &v1beta1.PreferredAllocationRequest{ContainerRequests: []*v1beta1.ContainerPreferredAllocationRequest{
		{AvailableDeviceIDs: available, MustIncludeDeviceIDs: must, AllocationSize: int32(size)},
	}})
	k.mu.Lock()
	if err != nil {
		return nil, fmt.Errorf("device plugin GetPreferredAllocation rpc failed with err: %w", err)
	}
	if len(resp.ContainerResponses) == 0 {
		return nil, nil
	}
	return resp.ContainerResponses[0].DeviceIDs, nil
}

// shuffled returns the members in an order of chance. It needs k.mu.
func (k *Kubelet) shuffled(s set) []string {
	ids := slices.Sorted(maps.Keys(s))
	k.rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

// release frees what pods held that are no longer active. It needs k.mu.
func (k *Kubelet) release() {
	before := len(k.held)
	maps.DeleteFunc(k.held, func(h holder, _ grant) bool { _, ok := k.active[h.pod]; return !ok })
	if len(k.held) != before {
		k.taken = k.inUse()
	}
}

// inUse returns the devices that containers hold. It needs k.mu.
func (k *Kubelet) inUse() map[string]set {
	out := make(map[string]set)
	for h, g := range k.held {
		if out[h.resource] == nil {
			out[h.resource] = make(set)
		}
		for _, id := range g.ids {
			out[h.resource][id] = true
		}
	}
	return out
}

// StartContainer does what a kubelet does before every start of a container:
// it asks the plugins, and gives what they answered to Allocate, by resource.
func (k *Kubelet) StartContainer(ctx context.Context, pod, container string) (map[string]*v1beta1.ContainerAllocateResponse, error) {
	k.mu.Lock()
	p, ok := k.active[pod]
	k.mu.Unlock()
	i := slices.IndexFunc(append(slices.Clone(p.Init), p.Containers...), func(c Container) bool { return c.Name == container })
	if !ok || i < 0 {
		return nil, fmt.Errorf("no container %q in an active pod %q", container, pod)
	}
	c := append(slices.Clone(p.Init), p.Containers...)[i]
	out := make(map[string]*v1beta1.ContainerAllocateResponse)
	for _, resource := range slices.Sorted(maps.Keys(c.Limits)) {
		k.mu.Lock()
		e, g := k.ends[resource], k.held[holder{pod, container, resource}]
		ids := k.shuffled(setOf(g.ids))
		k.mu.Unlock()
		switch {
		case e == nil:
			return nil, fmt.Errorf("endpoint not found in cache for a registered resource: %s", resource)
		case e.options.GetPreStartRequired() && g.ids == nil:
			return nil, fmt.Errorf("no devices found allocated in local cache for pod %s, container %s, resource %s", pod, container, resource)
		case e.options.GetPreStartRequired():
			err := errStopped(e, resource)
			if err == nil {
				err = e.preStart(ctx, ids)
			}
			if err != nil {
				return nil, fmt.Errorf("CreateContainerConfigError: device plugin PreStartContainer rpc failed with err: %w", err)
			}
		}
		out[resource] = g.resp
	}
	return out, nil
}

func (e *endpoint) preStart(ctx context.Context, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, v1beta1.KubeletPreStartContainerRPCTimeoutInSecs*time.Second)
	defer cancel()
	_, err := e.api.PreStartContainer(ctx, &v1beta1.PreStartContainerRequest{DevicesIds: ids})
	return err
}

func setOf(ids []string) set {
	s := make(set, len(ids))
	for _, id := range ids {
		s[id] = true
	}
	return s
}

// Remove says that a pod has ended. Its devices are free for the next pod.
func (k *Kubelet) Remove(pod string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.active, pod)
	k.broadcast()
}
