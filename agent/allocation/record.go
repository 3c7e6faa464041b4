package allocation

import (
	"slices"

	"berth.dev/berth/core/sharing"
)

// record is what one pod holds. It is what spec files keep.
type record struct {
	PodUID     string      `json:"podUID"`
	Namespace  string      `json:"namespace"`
	Pod        string      `json:"pod"`
	Committed  bool        `json:"committed"`
	Containers []container `json:"containers"` // that have devices or entries, in the order in which they start

	limited bool // the driver's memory limits have been seen to, by this process
}

// container is what one container of a record holds.
type container struct {
	Name    string   `json:"name"`
	Devices []device `json:"devices"`
	Entries []entry  `json:"entries"`          // of the kubelet
	Picked  []string `json:"picked,omitempty"` // see Holder
}

// device is a device as it was when it was given. The node may offer it in
// another form by now, or not at all.
type device struct {
	ID          string `json:"id"`
	Resource    string `json:"resource"`
	UUID        string `json:"uuid"`
	Parent      string `json:"gpu"` // UUID of the GPU
	GPU         int    `json:"index"`
	Profile     string `json:"profile,omitempty"`
	Replica     int    `json:"replica,omitempty"`
	MilliGPU    int64  `json:"milliGPU"`
	MemoryBytes int64  `json:"memoryBytes"`
}

// share tells whether a device is a part of a GPU or MIG device.
func (d *device) share() bool { return d.ID != d.UUID }

// device gives it in the words of package sharing.
func (d *device) device(healthy bool) sharing.Device {
	return sharing.Device{
		ID: d.ID, Resource: d.Resource, UUID: d.UUID, GPU: d.GPU, Profile: d.Profile, Replica: d.Replica,
		MilliGPU: d.MilliGPU, MemoryBytes: d.MemoryBytes, Healthy: healthy, NUMANode: -1,
	}
}

// keep makes devices of package sharing into what a record has.
func (n *Node) keep(devices []sharing.Device) []device {
	out := make([]device, 0, len(devices))
	for _, d := range devices {
		out = append(out, device{
			ID: d.ID, Resource: d.Resource, UUID: d.UUID, Parent: n.parent(d.GPU), GPU: d.GPU, Profile: d.Profile,
			Replica: d.Replica, MilliGPU: d.MilliGPU, MemoryBytes: d.MemoryBytes,
		})
	}
	return out
}

// container gives the container of a name, or nil.
func (r *record) container(name string) *container {
	for i := range r.Containers {
		if r.Containers[i].Name == name {
			return &r.Containers[i]
		}
	}
	return nil
}

// devices lists the devices of a record, each once, in the order in which
// containers start.
func (r *record) devices() []device {
	var out []device
	for i := range r.Containers {
		for _, d := range r.Containers[i].Devices {
			if !slices.ContainsFunc(out, func(o device) bool { return o.ID == d.ID }) {
				out = append(out, d)
			}
		}
	}
	return out
}

// main is the entry whose CDI device brings all devices of the container; the
// others bring none. ok is false for a container without answers of ours.
func (c *container) main() (resource string, ok bool) {
	for _, e := range c.Entries {
		if e.Nonce != "" && (!ok || e.Resource < resource) {
			resource, ok = e.Resource, true
		}
	}
	return resource, ok
}

// merge adds what an older record of the same pod knows.
func (r *record) merge(o *record) {
	for _, c := range o.Containers {
		mine := r.container(c.Name)
		if mine == nil {
			r.Containers = append(r.Containers, c)
			continue
		}
		for _, e := range c.Entries {
			if !slices.ContainsFunc(mine.Entries, func(m entry) bool { return m.Resource == e.Resource }) {
				mine.Entries = append(mine.Entries, e)
			}
		}
	}
}

// clone gives a copy that can be changed.
func (r *record) clone() *record {
	out := *r
	out.Containers = slices.Clone(r.Containers)
	for i := range out.Containers {
		out.Containers[i].Entries = slices.Clone(r.Containers[i].Entries)
	}
	return &out
}

// take notes the kubelet's present entries of the pod. moved tells whether it has
// chosen other tokens than before.
func (r *record) take(entries []entry) (moved bool) {
	for _, e := range entries {
		c := r.container(e.Container)
		if c == nil {
			r.Containers = append(r.Containers, container{Name: e.Container})
			c = &r.Containers[len(r.Containers)-1]
		}
		i := slices.IndexFunc(c.Entries, func(o entry) bool { return o.Resource == e.Resource })
		if i < 0 {
			c.Entries = append(c.Entries, e)
			moved = true
			continue
		}
		moved = moved || !slices.Equal(c.Entries[i].Tokens, e.Tokens)
		c.Entries[i] = e
	}
	return moved
}

// tokens gives what the kubelet has given to a pod, by resource and token.
func (r *record) tokens() map[string]bool {
	out := map[string]bool{}
	for i := range r.Containers {
		for _, e := range r.Containers[i].Entries {
			for _, token := range e.Tokens {
				out[e.Resource+" "+token] = true
			}
		}
	}
	return out
}

// hasOf tells whether a pod has one of these tokens.
func (r *record) hasOf(tokens map[string]bool) bool {
	for i := range r.Containers {
		for _, e := range r.Containers[i].Entries {
			if slices.ContainsFunc(e.Tokens, func(token string) bool { return tokens[e.Resource+" "+token] }) {
				return true
			}
		}
	}
	return false
}
