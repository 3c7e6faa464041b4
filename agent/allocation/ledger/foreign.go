package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/agent/allocation/checkpoint"
	"berth.dev/berth/agent/allocation/notice"
	"berth.dev/berth/core/sharing"
)

// What other plugins allocated, or this agent in mode kubelet, is in the kubelet's
// checkpoint under the devices' own IDs. The ledger counts it as soon as it is
// read, even for pods that may have ended; the caller releases those.

// AddForeign adds records of the devices that other plugins allocated, and reports
// whether one is new; then the caller calls Recount. entries are all that the
// kubelet has. An error says which devices are held by a pod that is not known.
func (l *Ledger) AddForeign(entries []checkpoint.Entry) (added bool, err error) {
	listed := map[string]bool{}
	for i := range entries {
		e := &entries[i]
		listed[e.PodUID] = true
		if l.ended[e.PodUID] || l.records[e.PodUID].has(e) {
			continue
		}
		devices := l.named(e)
		switch {
		case len(devices) == 0 || e.Ours():
		case e.PodUID == "":
			err = errors.Join(err, fmt.Errorf("container %s has %s of %s, and its pod is not listed", e.Container, notice.List(e.DeviceIDs), e.Resource))
		default:
			l.addForeign(e, devices)
			added = true
		}
	}
	if err == nil {
		for uid := range l.ended {
			if !listed[uid] {
				delete(l.ended, uid)
			}
		}
	}
	return added, err
}

// named returns the devices that an entry has under their own IDs: as they are
// offered, and those that are not offered as all of their hardware.
func (l *Ledger) named(e *checkpoint.Entry) []Device {
	var out []Device
	for _, id := range e.DeviceIDs {
		uuid, _, _ := strings.Cut(id, "::")
		for i := range l.gpus {
			g := &l.gpus[i]
			d := Device{ID: id, Resource: e.Resource, UUID: uuid, Parent: g.UUID, GPU: g.Index, MilliGPU: 1000, MemoryBytes: g.MemoryBytes}
			found := g.UUID == uuid
			for _, m := range g.MIG {
				if m.UUID == uuid {
					found, d.Profile, d.MemoryBytes = true, m.Profile, m.MemoryBytes
				}
			}
			if found {
				out = append(out, l.asOffered(d))
				break
			}
		}
	}
	return out
}

// asOffered returns a device as the node offers it under its ID, or unchanged.
func (l *Ledger) asOffered(d Device) Device {
	for _, o := range l.devices.Devices() {
		if o.ID == d.ID {
			return l.recordDevices([]sharing.Device{o})[0]
		}
	}
	return d
}

// addForeign replaces what another plugin allocated to a container of an entry's
// resource. The pod is named by its UID until SetNames.
func (l *Ledger) addForeign(e *checkpoint.Entry, devices []Device) {
	r := &Record{PodUID: e.PodUID, Pod: e.PodUID}
	if before := l.records[e.PodUID]; before != nil {
		r = before.clone()
	}
	old := r.Container(e.Container)
	var kept []Device
	if old != nil {
		i := slices.IndexFunc(old.Entries, func(o checkpoint.Entry) bool { return o.Resource == e.Resource })
		kept = slices.DeleteFunc(slices.Clone(old.Devices), func(d Device) bool { return i >= 0 && slices.Contains(old.Entries[i].DeviceIDs, d.ID) })
	}
	r.setEntries([]checkpoint.Entry{{PodUID: e.PodUID, Container: e.Container, Resource: e.Resource, DeviceIDs: e.DeviceIDs}})
	c := r.Container(e.Container)
	c.Devices = append(kept, devices...)
	c.Picked = UUIDs(c.Devices)
	l.records[e.PodUID] = r
	l.log.Info("a pod has devices of another device plugin", "uid", e.PodUID, "container", e.Container, "devices", UUIDs(devices))
}

// EndedButListed returns the pods, by UID, that were released and that are among
// those that a list calls live. The list may be older than their end.
func (l *Ledger) EndedButListed(live map[string]bool) []string {
	var out []string
	for uid := range l.ended {
		if live[uid] {
			out = append(out, uid)
		}
	}
	return out
}

// NotEnded has AddForeign read the entries of a pod again that was released by
// mistake.
func (l *Ledger) NotEnded(uid string) { delete(l.ended, uid) }
