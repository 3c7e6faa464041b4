package sharing

import (
	"slices"
)

// Hold marks the placeholders names as held by a pod that holds the devices ids of
// that resource. Placeholders that stand for one of these keep it; the others, in
// the order of their numbers, swap devices with the placeholders of the devices that
// are left, in the order of ids. An unknown name becomes a placeholder: the kubelet
// remembers names that an earlier agent has offered.
//
// IDs that are not offered are left out. Placeholders for which no device is left
// stand for nothing, and the devices that they stood for get new ones.
func (t *Placeholders) Hold(resource string, names, ids []string) {
	n := t.byResource[resource]
	if n == nil {
		n = &numbering{short: PlaceholderResource(resource), byName: map[string]*Placeholder{}, of: map[string]*Placeholder{}}
		if t.byResource == nil {
			t.byResource = map[string]*numbering{}
		}
		t.byResource[resource] = n
	}
	names = slices.SortedFunc(slices.Values(names), func(a, b string) int {
		return order(&Placeholder{Name: a, number: PlaceholderNumber(n.short, a)}, &Placeholder{Name: b, number: PlaceholderNumber(n.short, b)})
	})
	names = slices.Compact(names)
	var left []string // of ids
	kept := map[string]bool{}
	for _, id := range ids {
		d := n.of[id]
		switch {
		case d == nil || kept[d.Name]:
		case slices.Contains(names, d.Name):
			kept[d.Name] = true
		default:
			left = append(left, id)
		}
	}
	for _, name := range names {
		placeholder := n.byName[name]
		if placeholder == nil {
			placeholder = &Placeholder{Name: name, Gone: true, Device: Device{Resource: resource, NUMANode: -1}, number: PlaceholderNumber(n.short, name)}
			n.byName[name], n.list = placeholder, nil
		}
		placeholder.Held = true
		switch {
		case kept[name]:
		case len(left) > 0:
			n.swap(placeholder, left[0])
			left = left[1:]
		case !placeholder.Gone:
			d := placeholder.Device
			n.leave(placeholder)
			name, _ := n.fresh(0)
			n.put(name, d)
		}
	}
}

// swap gives placeholder the device of an ID, and the placeholder that stood for it what
// placeholder stood for.
func (n *numbering) swap(placeholder *Placeholder, id string) {
	other := n.of[id]
	if other == placeholder {
		return
	}
	gone := placeholder.Gone
	placeholder.Device, other.Device = other.Device, placeholder.Device
	placeholder.Gone = false
	if n.of[id] = placeholder; gone {
		n.leave(other)
	} else {
		n.of[other.Device.ID] = other
	}
}

// HoldMemory is Hold for placeholders of ResourceMemory and a share of one GPU: they
// come to stand for as many GiB of it as no other pod's placeholders do.
func (t *Placeholders) HoldMemory(names []string, uuid string) {
	var ids []string
	if n := t.byResource[ResourceMemory]; n != nil {
		mine := map[string]bool{}
		for _, name := range names {
			mine[name] = true
		}
		var free []string
		for _, placeholder := range n.of {
			switch {
			case placeholder.Device.UUID != uuid:
			case mine[placeholder.Name]:
				ids = append(ids, placeholder.Device.ID)
			case !placeholder.Held:
				free = append(free, placeholder.Device.ID)
			}
		}
		slices.Sort(free)
		ids = append(ids, free[:min(len(free), max(0, len(names)-len(ids)))]...)
	}
	t.Hold(ResourceMemory, names, ids)
}

// Release notes that no pod has the placeholders names any longer. Those whose device
// is not offered are forgotten, and so is a resource that is left with none.
func (t *Placeholders) Release(resource string, names []string) {
	n := t.byResource[resource]
	if n == nil {
		return
	}
	for _, name := range names {
		if placeholder := n.byName[name]; placeholder != nil {
			if placeholder.Held = false; placeholder.Gone {
				n.leave(placeholder)
			}
		}
	}
	t.prune(resource)
}

func (t *Placeholders) prune(resource string) {
	if len(t.byResource[resource].byName) == 0 {
		delete(t.byResource, resource)
	}
}
