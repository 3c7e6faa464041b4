package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/commit"
	"berth.dev/berth/kube/request"
)

// devicePrefix begins every resource that the fleet gives devices for.
const devicePrefix = "nvidia.com/"

// allocate allocates the containers of a pod their devices, in the order in which
// they start: what an init container had, later ones use again, as a kubelet
// does it. A sidecar keeps its own. On an error the pod holds nothing.
//
// A pod with committed devices gets exactly those. Where Berth schedules, a share
// of a GPU by size is given to no other.
func allocate(l *sharing.Ledger, p *pod) error {
	if named, err := commit.Committed(p.api); named != nil || err != nil {
		return commitDevices(l, p, named, err)
	}
	if p.node.fleet.commitments {
		if err := uncommitted(p.api); err != nil {
			return err
		}
	}
	owner := string(p.api.UID)
	var reuse []sharing.Device // of init containers, not in use by a container that runs beside
	for _, c := range p.containers {
		if c.role == roleEphemeral {
			continue
		}
		had := reuse
		for _, ask := range asks(c.spec) {
			got, rest, err := take(l, owner, ask, had)
			if err != nil {
				l.Release(owner)
				for _, c := range p.containers {
					c.devices = nil
				}
				return err
			}
			had = rest
			c.devices = append(c.devices, got...)
		}
		switch c.role {
		case roleInit:
			for _, d := range c.devices {
				if !slices.ContainsFunc(reuse, func(r sharing.Device) bool { return r.ID == d.ID }) {
					reuse = append(reuse, d)
				}
			}
		default:
			reuse = had
		}
	}
	return nil
}

// commit gives the containers of a pod the devices that Berth's scheduler has
// committed, or none and an error: where the annotation cannot be read (err),
// does not match what the containers ask for, names a device that is not to be
// had here, is unhealthy, or is of another size than was counted.
func commitDevices(l *sharing.Ledger, p *pod, named map[string][]sharing.Named, err error) error {
	const next = "; delete the pod to have it rescheduled"
	if err != nil {
		return fmt.Errorf("%w%s", err, next)
	}
	owner, parts := string(p.api.UID), request.Parts(p.api)
	got, err := l.Commit(owner, parts, named)
	if err != nil {
		return fmt.Errorf("the devices committed in %s cannot be allocated: %w%s", api.AnnotationDevices, err, next)
	}
	for i := range parts {
		for j, d := range got[i] {
			want := named[parts[i].Name][j]
			d = p.node.kept(d)
			got[i][j] = d
			switch {
			case !d.Healthy:
				err = fmt.Errorf("device %s, committed in %s, is unhealthy%s", d.UUID, api.AnnotationDevices, next)
			case d.MilliGPU != want.MilliGPU || d.MemoryBytes != want.MemoryBytes:
				err = fmt.Errorf("device %s was committed in %s with %d milli-GPUs and %d bytes, and this node offers it with %d and %d%s",
					d.UUID, api.AnnotationDevices, want.MilliGPU, want.MemoryBytes, d.MilliGPU, d.MemoryBytes, next)
			}
		}
	}
	if err != nil {
		l.Release(owner)
		return err
	}
	p.hand(parts, got)
	return nil
}

// hand gives the containers of a pod the devices of parts.
func (p *pod) hand(parts []sharing.Part, devices [][]sharing.Device) {
	for _, c := range p.containers {
		if i := slices.IndexFunc(parts, func(part sharing.Part) bool { return part.Name == c.spec.Name }); i >= 0 {
			c.devices = devices[i]
		}
	}
}

// uncommitted refuses a pod without committed devices that asks for a share of a
// GPU by size: only the scheduler knows of which GPU.
func uncommitted(pod *v1.Pod) error {
	for _, part := range request.Parts(pod) {
		for _, a := range part.Asks {
			if size, _, ok := a.ShareOf(); ok {
				return fmt.Errorf("container %s asks for a share of a GPU (%s: %s), which only Berth's scheduler allocates, and it committed none in %s: leave spec.nodeName out and let default-scheduler or berth-scheduler place the pod",
					part.Name, a.Resource, size, api.AnnotationDevices)
			}
		}
	}
	return nil
}

// keepCommitted gives a pod that has started the devices that were committed to
// it, after a restart: those that its status cannot name, as nothing in its
// resources asks for them. They may be unhealthy by now.
func keepCommitted(l *sharing.Ledger, p *pod) error {
	named, err := commit.Committed(p.api)
	if err != nil {
		return err
	}
	parts := request.Parts(p.api)
	got, err := l.Commit(string(p.api.UID), parts, named)
	if err != nil {
		return err
	}
	p.hand(parts, got)
	return nil
}

// settling is when the devices of a pod are settled after a restart.
type settling int

// The order: pods whose status names their devices have those and no others; pods
// with committed devices that their status has no name for may have any number of
// a share; the rest gets what is left.
const (
	settleNamed settling = iota
	settleCommitted
	settleLast
)

// settles says when the devices of a pod are settled.
func settles(pod *v1.Pod) settling {
	switch {
	case len(observed(&pod.Status)) > 0:
		return settleNamed
	case silent(pod):
		return settleCommitted
	}
	return settleLast
}

// silent reports whether a pod has started with committed devices that its
// status does not name.
func silent(pod *v1.Pod) bool {
	named, err := commit.Committed(pod)
	return err == nil && len(named) > 0 && pod.Status.StartTime != nil && !terminal(pod.Status.Phase) && len(observed(&pod.Status)) == 0
}

// ask is what a container wants of one resource: a number of devices, or GiB of
// one GPU.
type ask struct {
	resource string
	count    int64
}

// asks returns what a container wants, by resource name. GPU memory beside one
// nvidia.com/gpu is a share of that GPU, so the GPU itself is not asked for.
func asks(c *v1.Container) []ask {
	var out []ask
	for _, list := range []v1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
		for name, q := range list {
			if strings.HasPrefix(string(name), devicePrefix) && !q.IsZero() &&
				!slices.ContainsFunc(out, func(a ask) bool { return a.resource == string(name) }) {
				out = append(out, ask{string(name), request.Amount(&q, request.MostAsked)})
			}
		}
	}
	if slices.ContainsFunc(out, func(a ask) bool { return a.resource == api.ResourceGPUMemory }) {
		out = slices.DeleteFunc(out, func(a ask) bool { return a.resource == api.ResourceGPU && a.count == 1 })
	}
	slices.SortFunc(out, func(a, b ask) int { return strings.Compare(a.resource, b.resource) })
	return out
}

// take fills one ask, first from devices to be used again, then from the
// ledger. It returns what it gave and what is left to be used again.
func take(l *sharing.Ledger, owner string, a ask, reuse []sharing.Device) (got, rest []sharing.Device, err error) {
	if a.resource == api.ResourceGPUMemory {
		for i, d := range reuse {
			if d.Resource == a.resource && d.MemoryBytes >= a.count*sharing.GiB {
				return []sharing.Device{d}, slices.Delete(slices.Clone(reuse), i, i+1), nil
			}
		}
		d, err := l.TakeMemory(owner, a.count)
		return []sharing.Device{d}, reuse, err
	}
	for _, d := range reuse {
		if d.Resource == a.resource && int64(len(got)) < a.count {
			got = append(got, d)
		} else {
			rest = append(rest, d)
		}
	}
	more, err := l.Take(owner, a.resource, int(min(a.count, 1<<30))-len(got))
	return append(got, more...), rest, err
}

// allocated writes devices as a container's allocatedResourcesStatus: by
// resource, each with its health. The API server wants the name of a resource
// that the container asks for; shares that an annotation asks for have none, and
// are left out.
func allocated(c *v1.Container, devices []sharing.Device) []v1.ResourceStatus {
	if len(devices) == 0 {
		return nil
	}
	by := map[string][]v1.ResourceHealth{}
	for _, d := range devices {
		health := v1.ResourceHealthStatusHealthy
		if !d.Healthy {
			health = v1.ResourceHealthStatusUnhealthy
		}
		name := d.Resource
		if _, ok := c.Resources.Requests[v1.ResourceName(name)]; !ok && name == sharing.ResourceMemory {
			if name = shareResource(c); name == "" {
				continue
			}
		}
		by[name] = append(by[name], v1.ResourceHealth{ResourceID: v1.ResourceID(d.ID), Health: health})
	}
	var out []v1.ResourceStatus
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, v1.ResourceStatus{Name: v1.ResourceName(name), Resources: by[name]})
	}
	return out
}

// shareResource is the name by which a container asks for a share of a GPU in the
// spelling of HAMi or Volcano; "" is not at all.
func shareResource(c *v1.Container) string {
	for _, name := range []v1.ResourceName{
		api.ResourceHAMiMemory, api.ResourceHAMiPercentage, api.ResourceHAMiCores,
		api.ResourceVolcanoMemory, api.ResourceVolcanoPercentage, api.ResourceVolcanoCores, api.ResourceVolcanoNumber,
	} {
		if _, ok := c.Resources.Requests[name]; ok {
			return string(name)
		}
	}
	return ""
}

// held is one device in a pod's status, with the resource that the container
// asked for. A change of the plugin's configuration may have moved it to a
// device of another resource since.
type held struct{ id, resource string }

// observed returns the devices in a pod's status, by container.
func observed(s *v1.PodStatus) map[string][]held {
	var out map[string][]held
	for _, statuses := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for _, c := range statuses {
			for _, r := range c.AllocatedResourcesStatus {
				if !request.IsGPU(string(r.Name)) {
					continue
				}
				if out == nil {
					out = map[string][]held{}
				}
				for _, d := range r.Resources {
					out[c.Name] = append(out[c.Name], held{string(d.ResourceID), string(r.Name)})
				}
			}
		}
	}
	return out
}

// keepDevices gives a pod the devices that its status says it holds. A pod
// whose phase is final holds none, but remembers which it had.
func keepDevices(n *node, p *pod, by map[string][]held) error {
	if !terminal(p.api.Status.Phase) {
		var all []string
		for _, list := range by {
			for _, h := range list {
				all = append(all, h.id)
			}
		}
		slices.Sort(all)
		if err := n.ledger.Restore(string(p.api.UID), slices.Compact(all)); err != nil {
			return err
		}
	}
	for _, c := range p.containers {
		for _, h := range by[c.spec.Name] {
			d, ok := n.device(h.id)
			if !ok {
				return fmt.Errorf("node %s no longer has device %s", n.name, h.id)
			}
			d.Resource = h.resource
			c.devices = append(c.devices, d)
		}
	}
	return nil
}
