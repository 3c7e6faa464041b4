package ledger

import (
	"slices"

	"berth.dev/berth/agent/allocation/checkpoint"
	"berth.dev/berth/core/sharing"
)

// Record is what one pod holds. The CDI specs of its containers keep it, as JSON.
type Record struct {
	PodUID     string      `json:"podUID"`
	Namespace  string      `json:"namespace"`
	Pod        string      `json:"pod"` // its UID until the name is known
	Committed  bool        `json:"committed"`
	Containers []Container `json:"containers"` // that have devices or entries, in the order in which they start

	limited bool // this process has set the driver's memory limits, or has reported that it cannot
}

// Container is what one container of a record holds.
type Container struct {
	Name    string             `json:"name"`
	Devices []Device           `json:"devices"`
	Entries []checkpoint.Entry `json:"entries"`
	Picked  []string           `json:"picked,omitempty"` // see Holder
}

// Device is a device as it was when it was allocated. The node may offer it in
// another form by now, or not at all.
type Device struct {
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

// Share reports whether a device is a part of a GPU or of a MIG device.
func (d *Device) Share() bool { return d.ID != d.UUID }

// Sharing returns a device as package sharing has it.
func (d *Device) Sharing(healthy bool) sharing.Device {
	return sharing.Device{
		ID: d.ID, Resource: d.Resource, UUID: d.UUID, GPU: d.GPU, Profile: d.Profile, Replica: d.Replica,
		MilliGPU: d.MilliGPU, MemoryBytes: d.MemoryBytes, Healthy: healthy, NUMANode: -1,
	}
}

// recordDevices converts devices of package sharing to the form that a record keeps.
func (l *Ledger) recordDevices(devices []sharing.Device) []Device {
	out := make([]Device, 0, len(devices))
	for _, d := range devices {
		out = append(out, Device{
			ID: d.ID, Resource: d.Resource, UUID: d.UUID, Parent: l.parent(d.GPU), GPU: d.GPU, Profile: d.Profile,
			Replica: d.Replica, MilliGPU: d.MilliGPU, MemoryBytes: d.MemoryBytes,
		})
	}
	return out
}

// UUIDs returns the GPUs and MIG devices of devices, each once.
func UUIDs(devices []Device) []string {
	var out []string
	for i := range devices {
		if !slices.Contains(out, devices[i].UUID) {
			out = append(out, devices[i].UUID)
		}
	}
	return out
}

// Container returns the container of a name, or nil.
func (r *Record) Container(name string) *Container {
	for i := range r.Containers {
		if r.Containers[i].Name == name {
			return &r.Containers[i]
		}
	}
	return nil
}

// devices returns the devices of a record, each once, in the order in which
// containers start.
func (r *Record) devices() []Device {
	var out []Device
	for i := range r.Containers {
		for _, d := range r.Containers[i].Devices {
			if !slices.ContainsFunc(out, func(o Device) bool { return o.ID == d.ID }) {
				out = append(out, d)
			}
		}
	}
	return out
}

// Main returns the resource whose CDI device brings all devices of the container;
// those of its other resources bring none. ok is false for a container that other
// plugins alone have answered.
func (c *Container) Main() (resource string, ok bool) {
	for _, e := range c.Entries {
		if e.Nonce != "" && (!ok || e.Resource < resource) {
			resource, ok = e.Resource, true
		}
	}
	return resource, ok
}

// merge adds the containers and entries of an older record of the same pod that
// this one lacks.
func (r *Record) merge(older *Record) {
	for _, c := range older.Containers {
		mine := r.Container(c.Name)
		if mine == nil {
			r.Containers = append(r.Containers, c)
			continue
		}
		for _, e := range c.Entries {
			if !slices.ContainsFunc(mine.Entries, func(m checkpoint.Entry) bool { return m.Resource == e.Resource }) {
				mine.Entries = append(mine.Entries, e)
			}
		}
	}
}

// clone returns a copy whose containers and entries can be changed.
func (r *Record) clone() *Record {
	out := *r
	out.Containers = slices.Clone(r.Containers)
	for i := range out.Containers {
		out.Containers[i].Entries = slices.Clone(r.Containers[i].Entries)
	}
	return &out
}

// setEntries adds the kubelet's present entries of the pod, each in place of the
// one for the same container and resource. It reports whether the kubelet has
// chosen other IDs than before.
func (r *Record) setEntries(entries []checkpoint.Entry) (changed bool) {
	for _, e := range entries {
		c := r.Container(e.Container)
		if c == nil {
			r.Containers = append(r.Containers, Container{Name: e.Container})
			c = &r.Containers[len(r.Containers)-1]
		}
		i := slices.IndexFunc(c.Entries, func(o checkpoint.Entry) bool { return o.Resource == e.Resource })
		if i < 0 {
			c.Entries = append(c.Entries, e)
			changed = true
			continue
		}
		changed = changed || !slices.Equal(c.Entries[i].DeviceIDs, e.DeviceIDs)
		c.Entries[i] = e
	}
	return changed
}

// has reports whether a record has an entry. r may be nil.
func (r *Record) has(e *checkpoint.Entry) bool {
	if r == nil {
		return false
	}
	c := r.Container(e.Container)
	return c != nil && slices.ContainsFunc(c.Entries, func(o checkpoint.Entry) bool { return o.Has(e.Resource, e.DeviceIDs) })
}

// idKey is a device ID of a resource, as a key.
func idKey(resource, id string) string { return resource + " " + id }

// ids returns the device IDs that the kubelet has allocated to a pod, by idKey.
func (r *Record) ids() map[string]bool {
	out := map[string]bool{}
	for i := range r.Containers {
		for _, e := range r.Containers[i].Entries {
			for _, id := range e.DeviceIDs {
				out[idKey(e.Resource, id)] = true
			}
		}
	}
	return out
}

// hasAnyOf reports whether a pod has one of these IDs, by idKey.
func (r *Record) hasAnyOf(ids map[string]bool) bool {
	for i := range r.Containers {
		for _, e := range r.Containers[i].Entries {
			if slices.ContainsFunc(e.DeviceIDs, func(id string) bool { return ids[idKey(e.Resource, id)] }) {
				return true
			}
		}
	}
	return false
}
