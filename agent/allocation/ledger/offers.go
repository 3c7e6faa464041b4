package ledger

import (
	"slices"

	"berth.dev/berth/agent/deviceplugin"
)

// Offers returns the devices that the kubelet sees, by resource name. othersKnown
// says that the devices which other plugins allocated are known; until then,
// every device that no pod is known to hold is offered as unhealthy.
func (l *Ledger) Offers(othersKnown bool) map[string][]deviceplugin.Device {
	switch {
	case l.devices == nil:
		return map[string][]deviceplugin.Device{}
	case l.ownIDs:
		return l.offersByOwnID(othersKnown)
	}
	out := map[string][]deviceplugin.Device{}
	holder := map[string]string{} // pod, by device
	for _, h := range l.devices.Held() {
		holder[h.Device.ID] = h.Owner
	}
	for _, resource := range l.placeholders.Resources() {
		list := l.placeholders.List(resource)
		devices := make([]deviceplugin.Device, 0, len(list))
		var healthy map[string]bool
		for _, t := range list {
			d := deviceplugin.Device{ID: t.Name, Healthy: t.Device.Healthy, NUMANode: t.Device.NUMANode}
			switch {
			case t.Gone && healthy == nil:
				healthy = l.heldHealth(resource)
				d.Healthy = healthy[t.Name]
			case t.Gone:
				d.Healthy = healthy[t.Name]
			case !t.Held && (!othersKnown || holder[t.Device.ID] != ""):
				d.Healthy = false // held under another ID, or perhaps: the kubelet must not allocate it
			}
			devices = append(devices, d)
		}
		out[resource] = devices
	}
	return out
}

func (l *Ledger) offersByOwnID(othersKnown bool) map[string][]deviceplugin.Device {
	out := map[string][]deviceplugin.Device{}
	for _, d := range l.devices.Devices() {
		// The kubelet does not know what pods hold under a placeholder ID: that was
		// allocated before the node came to this mode.
		healthy := d.Healthy && (l.devices.Free(d.ID) == nil && othersKnown || l.allocatedByOwnID(d.ID))
		out[d.Resource] = append(out[d.Resource], deviceplugin.Device{ID: d.ID, Healthy: healthy, NUMANode: d.NUMANode})
	}
	return out
}

// heldHealth returns, for the placeholder IDs of a resource that pods have,
// whether the hardware is healthy that their containers hold.
func (l *Ledger) heldHealth(resource string) map[string]bool {
	out := map[string]bool{}
	for _, r := range l.records {
		for i := range r.Containers {
			c := &r.Containers[i]
			healthy := true
			for j := range c.Devices {
				healthy = healthy && l.healthy(&c.Devices[j])
			}
			for _, e := range c.Entries {
				for _, id := range e.DeviceIDs {
					if e.Resource == resource {
						out[id] = healthy
					}
				}
			}
		}
	}
	return out
}

// allocatedByOwnID reports whether the kubelet has allocated a device under its
// own ID.
func (l *Ledger) allocatedByOwnID(id string) bool {
	for _, r := range l.records {
		for i := range r.Containers {
			for _, e := range r.Containers[i].Entries {
				if e.Nonce == "" && slices.Contains(e.DeviceIDs, id) {
					return true
				}
			}
		}
	}
	return false
}
