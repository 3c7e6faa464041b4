package sharing

import (
	"fmt"
	"slices"
)

// Ask is what a part of a workload wants of one resource.
type Ask struct {
	Resource string // the name that it is asked for by
	Count    int64  // devices; of ResourceMemory without a Share the GiB of one share
	LeastGiB int64  // memory that each device has at least; 0 is any
	// Share, if it is not empty, makes this an ask for Count shares of that size,
	// each of another GPU.
	Share ShareSize
}

// ShareOf returns the size and number of the shares that an ask is for. ok is
// false for one that is for devices as the node offers them.
func (a Ask) ShareOf() (size ShareSize, n int64, ok bool) {
	switch {
	case a.Share != ShareSize{}:
		return a.Share, a.Count, true
	case a.Resource == ResourceMemory:
		return ShareSize{MemoryMiB: min(a.Count, mostMiB) * 1024}, 1, true
	}
	return ShareSize{}, 0, false
}

// Part is what gets devices of its own within one owner: in Kubernetes, a
// container.
type Part struct {
	Name string
	// HandsOn says that the part ends before the next begins, so that its devices
	// may be used again: in Kubernetes, an init container that is no sidecar.
	HandsOn bool
	Asks    []Ask
}

// Allocate allocates, to the parts of owner, which holds nothing yet, the devices they
// ask for, in the order in which they start. Parts use again what earlier ones
// hand on, as a kubelet does it. The result has the devices of each part in the
// order of its asks. On an error, which reads as the kubelet's, owner holds
// nothing.
func (l *Ledger) Allocate(owner string, parts []Part) ([][]Device, error) {
	return l.each(owner, parts, func(_ *Part, a Ask, reuse []Device) (got, rest []Device, err error) {
		if size, n, ok := a.ShareOf(); ok {
			got, rest = l.again(size, n, reuse)
			more, err := l.takeShares(owner, a.Resource, size, int(min(n, 1<<30))-len(got), got)
			return append(got, more...), rest, err
		}
		for _, d := range reuse {
			if d.Resource == a.Resource && int64(len(got)) < a.Count && d.MemoryBytes >= a.LeastGiB*GiB {
				got = append(got, d)
			} else {
				rest = append(rest, d)
			}
		}
		more, err := l.take(owner, a.Resource, int(min(a.Count, 1<<30))-len(got), a.LeastGiB*GiB)
		return append(got, more...), rest, err
	})
}

// each fills the asks of all parts by fill, which takes from what is handed on
// first and returns what it left of that.
func (l *Ledger) each(owner string, parts []Part, fill func(*Part, Ask, []Device) (got, rest []Device, err error)) ([][]Device, error) {
	out := make([][]Device, len(parts))
	var reuse []Device // of parts that have ended, in use by none
	for i := range parts {
		p := &parts[i]
		had := reuse
		for _, a := range p.Asks {
			got, rest, err := fill(p, a, had)
			if err != nil {
				l.Release(owner)
				return nil, err
			}
			had = rest
			out[i] = append(out[i], got...)
		}
		if !p.HandsOn {
			reuse = had
			continue
		}
		for _, d := range out[i] {
			if !slices.ContainsFunc(reuse, func(r Device) bool { return r.ID == d.ID }) {
				reuse = append(reuse, d)
			}
		}
	}
	return out, nil
}

// Named is a device that was chosen by its UUID.
type Named struct {
	UUID        string // of the GPU or MIG device
	MilliGPU    int64  // compute part of the GPU, 1000 is all of it; as in Device
	MemoryBytes int64  // that it may use; as in Device
}

// NamedOf names devices.
func NamedOf(devices []Device) []Named {
	var out []Named
	for _, d := range devices {
		out = append(out, Named{d.UUID, d.MilliGPU, d.MemoryBytes})
	}
	return out
}

// Commit allocates, to the parts of owner, which holds nothing yet, exactly the devices
// that named lists for each by name, in the order of its asks. It does not ask
// for their health, so that it also serves to count what is held already. The
// result is as Allocate's. On an error, which says which device is not to be had
// and who holds it, owner holds nothing.
func (l *Ledger) Commit(owner string, parts []Part, named map[string][]Named) ([][]Device, error) {
	if owner == "" {
		return nil, errNoOwner
	}
	if err := match(parts, named); err != nil {
		return nil, err
	}
	next := map[string]int{} // how many of a part's devices are given
	return l.each(owner, parts, func(p *Part, a Ask, reuse []Device) (got, rest []Device, err error) {
		rest = reuse
		size, _, share := a.ShareOf()
		for range a.Units() {
			want := named[p.Name][next[p.Name]]
			next[p.Name]++
			if share && slices.ContainsFunc(got, func(d Device) bool { return d.UUID == want.UUID }) {
				return nil, nil, fmt.Errorf("device %s of %s: it is named twice for %s, whose shares are each of another GPU", want.UUID, a.Resource, p.Name)
			}
			i := slices.IndexFunc(rest, func(d Device) bool {
				return d.UUID == want.UUID && (share && l.enough(d, size) || !share && d.Resource == a.Resource)
			})
			if i >= 0 {
				got, rest = append(got, rest[i]), slices.Delete(slices.Clone(rest), i, i+1)
				continue
			}
			d, err := l.takeOn(owner, a, want.UUID)
			if err != nil {
				return nil, nil, fmt.Errorf("device %s of %s: %w", want.UUID, a.Resource, err)
			}
			got = append(got, d)
		}
		return got, rest, nil
	})
}

// Units is how many devices an ask is for; of a share by size the shares.
func (a *Ask) Units() int64 {
	if _, n, ok := a.ShareOf(); ok {
		return n
	}
	return a.Count
}

// match wants as many devices named for each part as it asks for, and none for
// a part that is not there.
func match(parts []Part, named map[string][]Named) error {
	known := map[string]bool{}
	for i := range parts {
		known[parts[i].Name] = true
		n := int64(0)
		for _, a := range parts[i].Asks {
			n += a.Units()
		}
		if got := int64(len(named[parts[i].Name])); got != n {
			return fmt.Errorf("%d devices are named for %s, which asks for %d", got, parts[i].Name, n)
		}
	}
	for name := range named {
		if !known[name] {
			return fmt.Errorf("devices are named for %s, which is not there", name)
		}
	}
	return nil
}

// takeOn takes one device of an ask on the GPU or MIG device of a UUID: of
// several shares, the first that is free.
func (l *Ledger) takeOn(owner string, a Ask, uuid string) (Device, error) {
	if size, _, ok := a.ShareOf(); ok {
		i, there := l.card[uuid]
		if !there || size.valid() != nil {
			return Device{}, refused{ErrNotOffered, "this node offers no memory of it"}
		}
		d := shareDevice(&l.cards[i], l.freshID(uuid, size), size)
		if err := l.clash(d); err != nil {
			return Device{}, err
		}
		l.hold(owner, d)
		return d, nil
	}
	err := ErrNotOffered
	for _, d := range l.devices {
		if d.UUID != uuid || d.Resource != a.Resource {
			continue
		}
		if err = l.clash(d); err == nil {
			l.hold(owner, d)
			return d, nil
		}
	}
	return Device{}, err
}
