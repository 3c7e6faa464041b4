package ledger

import (
	"errors"
	"fmt"
	"slices"

	"berth.dev/berth/core/sharing"
)

// Prefer chooses count of the available IDs, among them all of must: as
// sharing.Prefer does it, from devices that no pod is counted to hold where there
// are enough of those.
//
// Source: GetPreferredAllocation of NVIDIA's device plugin 0.20, and its error.
func (l *Ledger) Prefer(resource string, available, must []string, count int) ([]string, error) {
	if len(available) < count || len(must) > count {
		return nil, errors.New("not enough available devices to satisfy allocation")
	}
	if l.devices == nil {
		return nil, errors.New("the node's GPUs are not known yet; the kubelet retries")
	}
	id := l.shownIDs(resource)
	var all, free, required, busy []sharing.Device
	for _, d := range l.devices.Devices() {
		if d.Resource != resource {
			continue
		}
		switch {
		case slices.Contains(must, id(d)):
			required = append(required, d)
		case !slices.Contains(available, id(d)):
			busy = append(busy, d)
			continue
		}
		all = append(all, d)
		if l.devices.Free(d.ID) == nil {
			free = append(free, d)
		}
	}
	if len(free)+len(required) >= count {
		all = free
	}
	var out []string
	for _, d := range sharing.Prefer(all, required, busy, count, l.settings.Packed) {
		out = append(out, id(d))
	}
	return fill(out, must, available, count), nil
}

// shownIDs returns a function that returns the ID under which the kubelet sees a
// device; "" for nvidia.com/gpu-memory, whose IDs stand for no device.
func (l *Ledger) shownIDs(resource string) func(sharing.Device) string {
	if l.ownIDs {
		return func(d sharing.Device) string { return d.ID }
	}
	name := map[string]string{}
	if resource != sharing.ResourceMemory {
		for _, t := range l.placeholders.List(resource) {
			name[t.Device.ID] = t.Name
		}
	}
	return func(d sharing.Device) string { return name[d.ID] }
}

// fill adds to a choice what it lacks of must, then of available, in their order.
func fill(out, must, available []string, count int) []string {
	for _, list := range [][]string{must, available} {
		for _, id := range list {
			if len(out) < count && !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	return out
}

// Chosen returns the devices that the kubelet's IDs stand for now. A placeholder
// ID that an earlier agent offered may stand for none, and is valid. Errors are
// for IDs that the node never offers, and for several shares where
// failRequestsGreaterThanOne refuses them; the texts are those of NVIDIA's plugin.
func (l *Ledger) Chosen(resource string, ids []string) ([]Device, error) {
	if l.devices == nil {
		return nil, errors.New("the node's GPUs are not known yet")
	}
	devices, err := l.chosen(resource, ids)
	if err != nil {
		return nil, err
	}
	if l.settings.FailRequestsGreaterThanOne && len(ids) > 1 && resource != sharing.ResourceMemory &&
		slices.ContainsFunc(devices, func(d sharing.Device) bool { return d.ID != d.UUID }) {
		return nil, fmt.Errorf("invalid request: maximum request size for shared resources is 1; found %d", len(ids))
	}
	return l.recordDevices(devices), nil
}

func (l *Ledger) chosen(resource string, ids []string) ([]sharing.Device, error) {
	var out []sharing.Device
	if l.ownIDs {
		all := l.devices.Devices()
		for _, id := range ids {
			i := slices.IndexFunc(all, func(d sharing.Device) bool { return d.ID == id && d.Resource == resource })
			if i < 0 {
				return nil, fmt.Errorf("invalid request: unknown device: %s", id)
			}
			out = append(out, all[i])
		}
		return out, nil
	}
	for _, id := range ids {
		t, ok := l.placeholders.Of(resource, id)
		switch {
		case ok && !t.Gone:
			out = append(out, t.Device)
		case !ok && sharing.PlaceholderNumber(resource, id) < 0:
			return nil, fmt.Errorf("invalid request: unknown device: %s", id)
		}
	}
	return out, nil
}
