package sharing

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth.dev/berth/core/gpu"
)

// Placeholders are the device IDs that the kubelet sees in place of a node's devices:
// it chooses among IDs, and knows nothing of commitments.
//
// Each device has one placeholder. When a pod holds a device other than its
// placeholder's, the two placeholders swap devices. So the placeholders that the
// kubelet counts as free stand for free devices, and a device that fails makes
// exactly its present placeholder unhealthy. A held placeholder keeps its name while
// it is held, whatever the node offers: if its pod holds nothing that is offered, it
// stands for no device.
//
// The devices of nvidia.com/gpu-memory are the whole GiB of unshared GPUs, one
// placeholder each. These are only good for a count.
//
// The zero value has none; Reset fills it. It is not safe for concurrent use.
type Placeholders struct {
	byResource map[string]*numbering
}

// Placeholder is one device ID and the device that it stands for.
type Placeholder struct {
	Name   string
	Device Device // of a GiB only ID, Resource, UUID, GPU and Healthy are set, and NUMANode is -1
	Held   bool   // a pod has it
	Gone   bool   // it stands for nothing; then it is held, and Device has only its Resource

	number int // see PlaceholderNumber
}

// numbering is the placeholders of one resource.
type numbering struct {
	short  string
	byName map[string]*Placeholder
	of     map[string]*Placeholder // by device ID, without those that are gone
	list   []*Placeholder          // in order; nil after names have come or gone
}

// PlaceholderResource returns how the placeholders of a resource begin: "gpu" for
// "nvidia.com/gpu".
func PlaceholderResource(resource string) string {
	return resource[strings.LastIndexByte(resource, '/')+1:]
}

// PlaceholderNumber returns the number of a placeholder of a resource, such as 3 of "gpu-3";
// -1 is a name of another form.
func PlaceholderNumber(resource, name string) int {
	digits, ok := strings.CutPrefix(name, PlaceholderResource(resource)+"-")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 || strconv.Itoa(n) != digits {
		return -1
	}
	return n
}

// Reset changes what the node offers, as Ledger.Reset does. Devices that stay
// keep their placeholders, new ones get the lowest free numbers in the order of
// Devices. A placeholder whose device is not offered any longer is forgotten unless it
// is held. Errors are those of Devices, and change nothing.
func (t *Placeholders) Reset(gpus []gpu.GPU, s gpu.Sharing) error {
	devices, err := Devices(gpus, s)
	if err != nil {
		return err
	}
	devices = append(devices, gibs(gpus, s)...)
	if t.byResource == nil {
		t.byResource = map[string]*numbering{}
	}
	offered := map[string][]Device{}
	for _, d := range devices {
		offered[d.Resource] = append(offered[d.Resource], d)
	}
	for resource := range offered {
		if t.byResource[resource] == nil {
			t.byResource[resource] = &numbering{short: PlaceholderResource(resource), byName: map[string]*Placeholder{}, of: map[string]*Placeholder{}}
		}
	}
	for resource, n := range t.byResource {
		n.reset(offered[resource])
		t.prune(resource)
	}
	return nil
}

// gibs are the devices that placeholders of ResourceMemory stand for.
func gibs(gpus []gpu.GPU, s gpu.Sharing) []Device {
	var out []Device
	for _, g := range gpus {
		if !unshared(g, s) {
			continue
		}
		for i := range g.MemoryBytes / GiB {
			out = append(out, Device{
				ID: g.UUID + "::gib-" + strconv.FormatInt(i, 10), Resource: ResourceMemory,
				UUID: g.UUID, GPU: g.Index, Healthy: g.Healthy, NUMANode: -1,
			})
		}
	}
	return out
}

func (n *numbering) reset(offered []Device) {
	before := n.of
	n.of = make(map[string]*Placeholder, len(offered))
	var fresh []Device
	for _, d := range offered {
		if t := before[d.ID]; t != nil {
			t.Device = d
			n.of[d.ID] = t
		} else {
			fresh = append(fresh, d)
		}
	}
	for id, t := range before {
		if n.of[id] == nil {
			n.leave(t)
		}
	}
	next := 0
	for _, d := range fresh {
		var name string
		name, next = n.fresh(next)
		n.put(name, d)
	}
}

// put makes a placeholder for a device that has none.
func (n *numbering) put(name string, d Device) {
	t := &Placeholder{Name: name, Device: d, number: PlaceholderNumber(n.short, name)}
	n.byName[name], n.of[d.ID], n.list = t, t, nil
}

// leave is a placeholder without a device: it is forgotten unless it is held.
func (n *numbering) leave(t *Placeholder) {
	t.Gone, t.Device = true, Device{Resource: t.Device.Resource, NUMANode: -1}
	if !t.Held {
		delete(n.byName, t.Name)
		n.list = nil
	}
}

// fresh is the lowest free name from a number on.
func (n *numbering) fresh(from int) (name string, number int) {
	for ; ; from++ {
		if name = n.short + "-" + strconv.Itoa(from); n.byName[name] == nil {
			return name, from
		}
	}
}

// Has reports whether there is a placeholder of that name.
func (t *Placeholders) Has(resource, name string) bool {
	n := t.byResource[resource]
	return n != nil && n.byName[name] != nil
}

// Resources returns the resources that have placeholders or are offered, sorted.
func (t *Placeholders) Resources() []string { return slices.Sorted(maps.Keys(t.byResource)) }

// List returns the placeholders of a resource, in the order of their numbers; names of
// another form come last.
func (t *Placeholders) List(resource string) []Placeholder {
	n := t.byResource[resource]
	if n == nil {
		return nil
	}
	if n.list == nil {
		n.list = slices.SortedFunc(maps.Values(n.byName), order)
	}
	out := make([]Placeholder, len(n.list))
	for i, placeholder := range n.list {
		out[i] = *placeholder
	}
	return out
}

// order sorts placeholders by number, then by name; those without a number come last.
func order(a, b *Placeholder) int {
	if a.number < 0 != (b.number < 0) {
		return cmp.Compare(b.number, a.number)
	}
	return cmp.Or(cmp.Compare(a.number, b.number), strings.Compare(a.Name, b.Name))
}

// Of returns the placeholder of that name. ok is false for one that is not there.
func (t *Placeholders) Of(resource, name string) (placeholder Placeholder, ok bool) {
	if n := t.byResource[resource]; n != nil && n.byName[name] != nil {
		return *n.byName[name], true
	}
	return Placeholder{}, false
}

// For returns the placeholder that stands for the device of an ID. ok is false for a
// device that is not offered.
func (t *Placeholders) For(resource, id string) (placeholder Placeholder, ok bool) {
	if n := t.byResource[resource]; n != nil && n.of[id] != nil {
		return *n.of[id], true
	}
	return Placeholder{}, false
}
