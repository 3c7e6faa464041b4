package sharing

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth.dev/berth/core/gpu"
)

// Ledger says which devices of one node are held, and by whom. An owner is any
// non-empty text, such as a pod's UID and a container's name; it may hold
// several devices. Each device has at most one owner, and a GPU that is shared
// by memory is never also given whole. The zero Ledger offers nothing; make one
// with NewLedger. A Ledger is not safe for concurrent use.
type Ledger struct {
	sharing gpu.Sharing
	devices []Device           // all that is offered, in the order of Devices
	byID    map[string]Device  // the same
	memory  map[string]gpu.GPU // GPUs that may be shared by memory, by UUID
	held    map[string]Holding // by device ID
	free    map[string]int64   // GiB left, of GPUs with shares by memory, by UUID
}

// Holding is one device and who holds it.
type Holding struct {
	Owner  string
	Device Device
}

// NewLedger makes the ledger of a node on which nothing is held. Errors are
// those of Devices.
func NewLedger(gpus []gpu.GPU, s gpu.Sharing) (*Ledger, error) {
	l := &Ledger{}
	if _, err := l.Reset(gpus, s); err != nil {
		return nil, err
	}
	return l, nil
}

// Reset changes what the node offers: after a fault, a new configuration, or a
// new MIG geometry. Holdings whose device is still offered stay, with the
// device as it is now; the others are dropped, and their owners returned,
// sorted. On an error, one of Devices, the ledger is as before.
func (l *Ledger) Reset(gpus []gpu.GPU, s gpu.Sharing) (gone []string, err error) {
	devices, err := Devices(gpus, s)
	if err != nil {
		return nil, err
	}
	before := l.held
	*l = Ledger{
		sharing: s, devices: devices, byID: map[string]Device{}, memory: map[string]gpu.GPU{},
		held: map[string]Holding{}, free: map[string]int64{},
	}
	// A configuration's maps are the caller's to change.
	l.sharing.Replicas = maps.Clone(s.Replicas)
	for _, d := range devices {
		l.byID[d.ID] = d
	}
	for _, g := range gpus {
		if unshared(g, s) {
			l.memory[g.UUID] = g
		}
	}
	for _, id := range slices.Sorted(maps.Keys(before)) {
		owner := before[id].Owner
		if d, err := l.find(id); err == nil && l.clash(d) == nil {
			l.hold(owner, d)
		} else {
			gone = append(gone, owner)
		}
	}
	slices.Sort(gone)
	return slices.Compact(gone), nil
}

// Devices gives all that is offered, held or not, in the order of the function
// Devices. Shares by memory are not in it: they are made when they are taken.
func (l *Ledger) Devices() []Device { return slices.Clone(l.devices) }

// Held gives every holding, sorted by owner, GPU, resource and device.
func (l *Ledger) Held() []Holding {
	return slices.SortedFunc(maps.Values(l.held), func(a, b Holding) int {
		return cmp.Or(
			cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Device.GPU, b.Device.GPU),
			cmp.Compare(a.Device.Resource, b.Device.Resource),
			cmp.Compare(a.Device.Replica, b.Device.Replica), cmp.Compare(a.Device.ID, b.Device.ID))
	})
}

// Release gives back all that owner holds. An owner that holds nothing is no
// error.
func (l *Ledger) Release(owner string) {
	for id, h := range l.held {
		if h.Owner != owner {
			continue
		}
		delete(l.held, id)
		if _, _, gib := ParseID(id); gib > 0 {
			l.free[h.Device.UUID] += gib
			if l.free[h.Device.UUID] == l.memory[h.Device.UUID].MemoryBytes/GiB {
				delete(l.free, h.Device.UUID)
			}
		}
	}
}

// Restore notes what owner already held, by device IDs, after a restart. It
// takes all of ids or none. A device may be unhealthy by now; one that owner
// holds already is no error. Errors: a device the node does not offer, one
// that another owner holds (both are named), and shares by memory beyond
// their GPU's size or on one that is held whole.
func (l *Ledger) Restore(owner string, ids []string) error {
	if owner == "" {
		return errNoOwner
	}
	var done []string
	for _, id := range ids {
		if h, ok := l.held[id]; ok && h.Owner == owner {
			continue
		}
		d, err := l.find(id)
		if err == nil {
			err = l.clash(d)
		}
		if err != nil {
			l.undo(done)
			return fmt.Errorf("restore device %s of %s: %w", id, owner, err)
		}
		l.hold(owner, d)
		done = append(done, id)
	}
	return nil
}

// errNoOwner: a holding without owner could never be released.
var errNoOwner = errors.New("the owner of a device has no name; name the pod and container")

// undo takes back devices by ID.
func (l *Ledger) undo(ids []string) {
	const nobody = "\x00undo"
	for _, id := range ids {
		h := l.held[id]
		h.Owner = nobody
		l.held[id] = h
	}
	l.Release(nobody)
}

// find gives the device of an ID, held or not.
func (l *Ledger) find(id string) (Device, error) {
	if d, ok := l.byID[id]; ok {
		return d, nil
	}
	uuid, _, gib := ParseID(id)
	g, ok := l.memory[uuid]
	if gib == 0 || !ok {
		return Device{}, fmt.Errorf("this node does not offer it")
	}
	return memoryDevice(g, id, gib), nil
}

// memoryDevice makes a share by memory of g.
func memoryDevice(g gpu.GPU, id string, gib int64) Device {
	d := Device{
		ID: id, Resource: ResourceMemory, UUID: g.UUID, GPU: g.Index,
		MemoryBytes: gib * GiB, Healthy: g.Healthy, Clique: g.Clique, NUMANode: g.NUMANode,
	}
	if total := g.MemoryBytes / GiB; total > 0 {
		d.MilliGPU = 1000 * min(gib, total) / total
	}
	return d
}

// clash says why d cannot be held beside what is.
func (l *Ledger) clash(d Device) error {
	if h, ok := l.held[d.ID]; ok {
		return fmt.Errorf("%s holds it", h.Owner)
	}
	if d.Resource != ResourceMemory {
		if _, shared := l.free[d.UUID]; shared {
			return fmt.Errorf("%s hold its memory", strings.Join(l.owners(d.UUID), " and "))
		}
		return nil
	}
	if h, ok := l.held[d.UUID]; ok {
		return fmt.Errorf("%s holds the whole GPU", h.Owner)
	}
	if left := l.left(d.UUID); d.MemoryBytes/GiB > left {
		return fmt.Errorf("its GPU has %d GiB left of %d", left, l.memory[d.UUID].MemoryBytes/GiB)
	}
	return nil
}

// owners gives who holds shares of a GPU or MIG device, sorted.
func (l *Ledger) owners(uuid string) []string {
	var out []string
	for _, h := range l.held {
		if h.Device.UUID == uuid {
			out = append(out, h.Owner)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// left gives the GiB of a GPU that shares by memory have not taken.
func (l *Ledger) left(uuid string) int64 {
	if n, ok := l.free[uuid]; ok {
		return n
	}
	return l.memory[uuid].MemoryBytes / GiB
}

// hold notes a holding that clash has nothing against.
func (l *Ledger) hold(owner string, d Device) {
	l.held[d.ID] = Holding{Owner: owner, Device: d}
	if d.Resource == ResourceMemory {
		l.free[d.UUID] = l.left(d.UUID) - d.MemoryBytes/GiB
	}
}

// TakeMemory gives owner a share of gib GiB of one healthy, unshared GPU: of
// the one that has the least left and still enough, so that GPUs stay whole;
// ties by index. Its MilliGPU is in proportion to its memory.
func (l *Ledger) TakeMemory(owner string, gib int64) (Device, error) {
	if owner == "" {
		return Device{}, errNoOwner
	}
	if gib <= 0 {
		return Device{}, fmt.Errorf("a share of %d GiB of GPU memory: ask for 1 at least", gib)
	}
	var best *gpu.GPU
	var most int64
	for _, g := range l.memory {
		if _, whole := l.held[g.UUID]; whole || !g.Healthy {
			continue
		}
		left := l.left(g.UUID)
		most = max(most, left)
		if left < gib {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(left, l.left(best.UUID)), cmp.Compare(g.Index, best.Index)) < 0 {
			best = &g
		}
	}
	if best == nil {
		return Device{}, unavailable(ResourceMemory, strconv.FormatInt(gib, 10), strconv.FormatInt(most, 10))
	}
	serial := 0
	for l.held[MemoryID(best.UUID, gib, serial)].Owner != "" {
		serial++
	}
	d := memoryDevice(*best, MemoryID(best.UUID, gib, serial), gib)
	l.hold(owner, d)
	return d, nil
}
