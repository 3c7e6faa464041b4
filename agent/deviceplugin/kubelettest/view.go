package kubelettest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc/connectivity"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Await returns nil when ok gives true, and an error if ctx ends before. It
// asks after every change of the kubelet; ok may call the kubelet's methods.
func (k *Kubelet) Await(ctx context.Context, ok func() bool) error {
	for {
		changed := k.Changed()
		if ok() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the kubelet: %w", context.Cause(ctx))
		}
	}
}

// Changed returns a channel that is closed by the next change: of devices,
// registrations, endpoints or pods.
func (k *Kubelet) Changed() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changed
}

// Capacity returns what the node's status says of a resource: all devices, and
// those that pods can get. known is false where the status does not name it.
// A plugin that has been away for StopGrace is forgotten by this call.
func (k *Kubelet) Capacity(resource string) (capacity, allocatable int, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.healthy[resource]; !ok {
		return 0, 0, false
	}
	e := k.ends[resource]
	if e == nil || !e.since().IsZero() && k.Now().Sub(e.since()) > StopGrace {
		delete(k.ends, resource)
		delete(k.healthy, resource)
		delete(k.sick, resource)
		k.writeCheckpoint()
		return 0, 0, false
	}
	allocatable = len(k.healthy[resource])
	return allocatable + len(k.sick[resource]), allocatable, true
}

// Serving reports whether calls for the resource would reach a plugin now. A kubelet
// that drops a plugin closes its connection first, and stops its endpoint then; one
// whose plugin is killed has lost the connection before it hears of it.
func (k *Kubelet) Serving(resource string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.ends[resource]
	return e != nil && e.running() && e.conn.GetState() == connectivity.Ready && k.grpc != nil
}

// Streams returns the number of device lists that the kubelet reads for a
// resource. It is more than one while a plugin of before has not ended, or has
// ended and the kubelet is yet to notice and to drop the plugin that came after it.
func (k *Kubelet) Streams(resource string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for c := range k.open {
		if c.resource == resource {
			n++
		}
	}
	return n
}

// Devices returns the devices of a resource as its plugin sent them last, by ID.
func (k *Kubelet) Devices(resource string) []*v1beta1.Device {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.SortedFunc(maps.Values(k.all[resource]), func(a, b *v1beta1.Device) int { return cmp.Compare(a.ID, b.ID) })
}

// Registrations returns those of a resource since the first Start, in order.
func (k *Kubelet) Registrations(resource string) []Registration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(k.log), func(r Registration) bool { return r.Resource != resource })
}

// Held is what one container holds of one resource.
type Held struct {
	Pod, Container, Resource string
	IDs                      []string // sorted
	Response                 *v1beta1.ContainerAllocateResponse
}

// Held returns what containers of active pods hold, by pod, container and
// resource.
func (k *Kubelet) Held() []Held {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []Held
	for h, g := range k.held {
		if _, ok := k.active[h.pod]; ok {
			out = append(out, Held{Pod: h.pod, Container: h.container, Resource: h.resource, IDs: slices.Sorted(slices.Values(g.ids)), Response: g.resp})
		}
	}
	slices.SortFunc(out, func(a, b Held) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container), cmp.Compare(a.Resource, b.Resource))
	})
	return out
}
