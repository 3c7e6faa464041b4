package sharing

import (
	"cmp"
	"maps"
	"slices"

	"berth.dev/berth/core/gpu"
)

// Ledger says which devices of one node are held, and by which owner. An owner is any
// non-empty text, such as a pod's UID and a container's name; it may hold
// several devices. Each device has at most one owner, and a GPU of which shares
// by size are held is never also given whole. The zero Ledger offers nothing; make one
// with NewLedger. A Ledger is not safe for concurrent use.
type Ledger struct {
	sharing gpu.Sharing
	devices []Device           // all that is offered, in the order of Devices
	byID    map[string]Device  // the same
	cards   []gpu.GPU          // GPUs that may be shared by size, in the node's order
	card    map[string]int     // the same, by UUID
	held    map[string]Holding // by device ID
	used    map[string]use     // of GPUs with shares by size, by UUID
}

// use is what the shares by size of one GPU take together.
type use struct {
	shares       int
	milli, bytes int64
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
		sharing: s, devices: devices, byID: map[string]Device{}, card: map[string]int{},
		held: map[string]Holding{}, used: map[string]use{},
	}
	// A configuration's maps are the caller's to change.
	l.sharing.Replicas, l.sharing.Devices = maps.Clone(s.Replicas), maps.Clone(s.Devices)
	for _, d := range devices {
		l.byID[d.ID] = d
	}
	for _, g := range gpus {
		if unshared(g, s) {
			l.card[g.UUID] = len(l.cards)
			l.cards = append(l.cards, g)
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

// Devices returns all that is offered, held or not, in the order of the function
// Devices. Shares by size are not in it: they are made when they are taken.
func (l *Ledger) Devices() []Device { return slices.Clone(l.devices) }

// Free says why the device of an ID cannot be given now: it is not offered, or
// it is taken. It does not ask for its health.
func (l *Ledger) Free(id string) error {
	d, err := l.find(id)
	if err != nil {
		return err
	}
	return l.clash(d)
}

// Held returns every holding, sorted by owner, GPU, resource and device.
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
		if h.Device.Resource != ResourceMemory {
			continue
		}
		u := l.used[h.Device.UUID]
		u = use{u.shares - 1, u.milli - h.Device.MilliGPU, u.bytes - h.Device.MemoryBytes}
		if l.used[h.Device.UUID] = u; u.shares == 0 {
			delete(l.used, h.Device.UUID)
		}
	}
}
