package sharing

import (
	"cmp"
	"slices"
)

// load counts devices by where they are.
type load struct {
	gpu  map[int]int
	uuid map[string]int
}

func newLoad() load { return load{map[int]int{}, map[string]int{}} }

func (l load) add(d Device) {
	l.gpu[d.GPU]++
	l.uuid[d.UUID]++
}

// load counts the held devices of a resource.
func (l *Ledger) load(resource string) load {
	held := newLoad()
	for _, h := range l.held {
		if h.Device.Resource == resource {
			held.add(h.Device)
		}
	}
	return held
}

// Prefer chooses n of available, which are devices of one resource in the order
// of Devices, as Take chooses: whole GPUs near to one another, shares and MIG devices from the GPU
// with the fewest held (packed: the most), and shares of different GPUs first (not packed). held are devices that are in use.
// must is chosen first, in its order, and the rest goes with it. The result is
// in the order chosen, with fewer than n where there are no more.
func Prefer(available, must, held []Device, n int, packed bool) []Device {
	picked := slices.Clone(must[:min(len(must), max(0, n))])
	free := slices.DeleteFunc(slices.Clone(available), func(d Device) bool {
		return slices.ContainsFunc(must, func(m Device) bool { return m.ID == d.ID })
	})
	n = min(n-len(picked), len(free))
	switch {
	case n <= 0:
		return picked
	case free[0].ID != free[0].UUID || free[0].Profile != "":
		used := newLoad()
		for _, d := range slices.Concat(held, picked) {
			used.add(d)
		}
		return append(picked, pickParts(free, used, n, packed)...)
	case len(picked) > 0:
		near := picked[0]
		far := func(d Device) int {
			switch {
			case near.Clique != 0 && d.Clique == near.Clique && d.NUMANode == near.NUMANode:
				return 0
			case near.Clique != 0 && d.Clique == near.Clique:
				return 1
			case near.NUMANode >= 0 && d.NUMANode == near.NUMANode:
				return 2
			}
			return 3
		}
		slices.SortStableFunc(free, func(a, b Device) int { return cmp.Compare(far(a), far(b)) })
		return append(picked, free[:n]...)
	}
	return pickWhole(free, n)
}

// pickParts chooses n of free, which are shares or MIG devices, one by one. It
// counts them in held, the devices of this resource that are in use. Several shares
// of one GPU are worth no more than one, so shares are of different GPUs first,
// unless they are to be packed.
func pickParts(free []Device, held load, n int, packed bool) []Device {
	used := newLoad()
	sign := 1
	if packed {
		sign = -1
	}
	apart := free[0].ID != free[0].UUID && !packed
	better := func(a, b Device) int {
		if apart && used.gpu[a.GPU] != used.gpu[b.GPU] {
			return cmp.Compare(used.gpu[a.GPU], used.gpu[b.GPU])
		}
		return cmp.Or(
			sign*cmp.Compare(held.gpu[a.GPU], held.gpu[b.GPU]), cmp.Compare(used.gpu[a.GPU], used.gpu[b.GPU]),
			cmp.Compare(a.GPU, b.GPU),
			sign*cmp.Compare(held.uuid[a.UUID], held.uuid[b.UUID]), cmp.Compare(used.uuid[a.UUID], used.uuid[b.UUID]))
	}
	free = slices.Clone(free)
	picked := make([]Device, 0, n)
	for range n {
		best := 0
		for i := range free {
			if better(free[i], free[best]) < 0 {
				best = i
			}
		}
		d := free[best]
		free = slices.Delete(free, best, best+1)
		picked = append(picked, d)
		held.add(d)
		used.add(d)
	}
	return picked
}
