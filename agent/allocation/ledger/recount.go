package ledger

import (
	"maps"

	"berth.dev/berth/agent/allocation/checkpoint"
	"berth.dev/berth/core/sharing"
)

// Recount counts all records from the start: first every device that is offered
// as it was allocated; then, for each other one, what is offered of the same
// hardware.
func (l *Ledger) Recount() {
	if l.devices == nil {
		return
	}
	devices, err := sharing.NewLedger(l.gpus, l.settings.Sharing)
	if err != nil {
		l.log.Error("cannot recount the node's GPUs", "error", err) // SetGPUs has checked the same
		return
	}
	l.devices = devices
	clear(l.displaced)
	offered := map[string]sharing.Device{}
	for _, d := range l.devices.Devices() {
		offered[d.ID] = d
	}
	uids := l.UIDs()
	for _, uid := range uids {
		for _, d := range l.records[uid].devices() {
			// A share of another size is another share, even under the same ID.
			now, listed := offered[d.ID]
			same := !listed || now.MilliGPU == d.MilliGPU && now.MemoryBytes == d.MemoryBytes
			if !same || l.devices.Restore(uid, []string{d.ID}) != nil {
				l.displaced[uid] = true
			}
		}
	}
	for _, uid := range uids {
		if l.displaced[uid] {
			l.holdSubstitutes(l.records[uid])
		}
	}
	for _, uid := range uids {
		l.holdPlaceholders(l.records[uid])
	}
}

// holdSubstitutes holds, for each device of a pod that is not offered as it was
// allocated, as much as is offered of the same hardware and free. If there is less,
// none of that hardware is free for other pods.
func (l *Ledger) holdSubstitutes(r *Record) {
	held := map[string]bool{} // the pod's own
	for _, h := range l.devices.Held() {
		if h.Owner == r.PodUID {
			held[h.Device.ID] = true
		}
	}
	asAllocated := maps.Clone(held)
	for _, d := range r.devices() {
		if asAllocated[d.ID] {
			continue
		}
		left := d.MilliGPU
		for _, o := range l.sameHardware(&d) {
			if left > 0 && !held[o.ID] && l.devices.Restore(r.PodUID, []string{o.ID}) == nil {
				held[o.ID] = true
				left -= o.MilliGPU
			}
		}
		// On a GPU of which other pods hold shares by size: one more share, as large
		// as fits.
		for size := left; size > 0; size /= 2 {
			if l.holdShare(r.PodUID, d.Parent, size) {
				break
			}
		}
	}
}

// holdShare holds a share by size, in milli-GPUs, of a GPU, and reports whether it
// could.
func (l *Ledger) holdShare(uid, gpu string, milli int64) bool {
	for serial := range len(l.records) + 8 { // another pod may have the number
		id := sharing.SizeID(gpu, sharing.ShareSize{MilliGPU: milli}, serial)
		if l.devices.Free(id) == nil {
			return l.devices.Restore(uid, []string{id}) == nil
		}
	}
	return false
}

// sameHardware returns what is offered of a device's hardware: first of the same
// GPU or MIG device, then of the GPU of a MIG device or its MIG devices.
func (l *Ledger) sameHardware(d *Device) []sharing.Device {
	var same, related []sharing.Device
	for _, o := range l.devices.Devices() {
		switch {
		case o.UUID == d.UUID:
			same = append(same, o)
		case l.parent(o.GPU) == d.Parent && (o.UUID == d.Parent || d.UUID == d.Parent):
			related = append(related, o)
		}
	}
	return append(same, related...)
}

// holdPlaceholders makes the placeholder IDs of a pod stand for what it holds.
func (l *Ledger) holdPlaceholders(r *Record) {
	for i := range r.Containers {
		c := &r.Containers[i]
		for _, e := range c.Entries {
			l.holdEntry(r, c, e)
		}
	}
}

func (l *Ledger) holdEntry(r *Record, c *Container, e checkpoint.Entry) {
	if e.Nonce == "" && !l.offersResource(e.Resource) {
		return // only the other plugin has this resource
	}
	if e.Resource == sharing.ResourceMemory {
		uuid := ""
		for _, d := range c.Devices {
			if d.Resource == sharing.ResourceMemory {
				uuid = d.UUID
			}
		}
		l.placeholders.HoldMemory(e.DeviceIDs, uuid)
		return
	}
	var ids []string
	for _, d := range c.Devices {
		switch {
		case d.Resource == e.Resource && !l.displaced[r.PodUID]:
			ids = append(ids, d.ID)
		case d.Resource == sharing.ResourceMemory:
			// A share that was requested together with this resource: its GPU, unless
			// another pod's ID stands for that.
			if t, ok := l.placeholders.For(e.Resource, d.UUID); ok && !t.Held {
				ids = append(ids, d.UUID)
			}
		}
	}
	if l.displaced[r.PodUID] {
		for _, h := range l.devices.Held() {
			if h.Owner == r.PodUID && h.Device.Resource == e.Resource {
				ids = append(ids, h.Device.ID)
			}
		}
	}
	l.placeholders.Hold(e.Resource, e.DeviceIDs, ids)
}

// offersResource reports whether the node offers a resource.
func (l *Ledger) offersResource(resource string) bool {
	for _, d := range l.devices.Devices() {
		if d.Resource == resource {
			return true
		}
	}
	return false
}
