package sharing

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"berth.dev/berth/core/gpu"
)

// TakeMemory gives owner a share of gib GiB of one healthy, unshared GPU. It is
// TakeShares of one share, asked for as ResourceMemory.
func (l *Ledger) TakeMemory(owner string, gib int64) (Device, error) {
	if gib <= 0 {
		return Device{}, fmt.Errorf("a share of %d GiB of GPU memory: ask for 1 at least", gib)
	}
	got, err := l.TakeShares(owner, ResourceMemory, ShareSize{MemoryMiB: min(gib, mostMiB) * 1024}, 1)
	if err != nil {
		return Device{}, err
	}
	return got[0], nil
}

// TakeShares gives owner n shares of equal size, each of another healthy,
// unshared GPU, or none and an error: of those that have the least left and
// still enough, so that GPUs stay whole; ties by index. All of several GPUs
// (1000 milli-GPUs) come from one NVLink clique or NUMA node as with Take.
//
// resource is the name that they were asked for by, for the error, which reads
// as the kubelet's.
func (l *Ledger) TakeShares(owner, resource string, s ShareSize, n int) ([]Device, error) {
	return l.takeShares(owner, resource, s, n, nil)
}

// takeShares is TakeShares of GPUs other than those of beside.
func (l *Ledger) takeShares(owner, resource string, s ShareSize, n int, beside []Device) ([]Device, error) {
	if owner == "" {
		return nil, errNoOwner
	}
	if err := s.valid(); err != nil {
		return nil, err
	}
	if n <= 0 {
		return nil, nil
	}
	var fit []Device // without an ID
	var mostMilli, mostBytes int64
	for i := range l.cards {
		g := &l.cards[i]
		if _, whole := l.held[g.UUID]; whole || !g.Healthy {
			continue
		}
		milli, bytes := l.left(g)
		mostMilli, mostBytes = max(mostMilli, milli), max(mostBytes, bytes)
		d := shareDevice(g, "", s)
		taken := slices.ContainsFunc(beside, func(b Device) bool { return b.UUID == g.UUID })
		if d.MilliGPU <= milli && d.MemoryBytes <= bytes && !taken {
			fit = append(fit, d)
		}
	}
	if len(fit) < n {
		return nil, tooFew(resource, s, n, len(fit), mostMilli, mostBytes)
	}
	if s.MilliGPU == 1000 {
		fit = pickWhole(fit, n)
	} else {
		slices.SortStableFunc(fit, func(a, b Device) int { return l.fuller(s, a, b) })
	}
	picked := fit[:n:n]
	for i := range picked {
		picked[i].ID = l.freshID(picked[i].UUID, s)
		l.hold(owner, picked[i])
	}
	return picked, nil
}

// fuller orders GPUs by what is left of them, the least first: of memory for a
// share that says how much of it, else of compute.
func (l *Ledger) fuller(s ShareSize, a, b Device) int {
	milliA, bytesA := l.left(&l.cards[l.card[a.UUID]])
	milliB, bytesB := l.left(&l.cards[l.card[b.UUID]])
	if s.MemoryMiB > 0 {
		return cmp.Or(cmp.Compare(bytesA, bytesB), cmp.Compare(a.GPU, b.GPU))
	}
	return cmp.Or(cmp.Compare(milliA, milliB), cmp.Compare(a.GPU, b.GPU))
}

// tooFew refuses shares. Of one share it tells the size asked for and the most
// that a GPU has left, in the unit of the request; of several how many.
func tooFew(resource string, s ShareSize, n, fit int, milli, bytes int64) error {
	switch {
	case n > 1:
		return unavailable(resource, fmt.Sprintf("%d shares of %s", n, s), strconv.Itoa(fit))
	case resource == ResourceMemory:
		return unavailable(resource, strconv.FormatInt(s.MemoryMiB/1024, 10), strconv.FormatInt(bytes/GiB, 10))
	case s.MemoryMiB > 0:
		return unavailable(resource, strconv.FormatInt(s.MemoryMiB, 10), strconv.FormatInt(bytes>>20, 10))
	}
	return unavailable(resource, s.String(), ShareSize{MilliGPU: milli}.String())
}

// freshID is the first ID of a share of this size that is not held.
func (l *Ledger) freshID(uuid string, s ShareSize) string {
	for serial := 0; ; serial++ {
		id := SizeID(uuid, s, serial)
		if _, held := l.held[id]; !held {
			return id
		}
	}
}

// left returns what of a GPU shares by size have not taken.
func (l *Ledger) left(g *gpu.GPU) (milli, bytes int64) {
	u := l.used[g.UUID]
	return 1000 - u.milli, g.MemoryBytes - u.bytes
}

// enough reports whether a share that is handed on serves for one of size s.
func (l *Ledger) enough(d Device, s ShareSize) bool {
	i, ok := l.card[d.UUID]
	if !ok || d.Resource != ResourceMemory {
		return false
	}
	milli, bytes := s.Of(l.cards[i].MemoryBytes)
	return d.MilliGPU >= milli && d.MemoryBytes >= bytes
}

// again takes up to n shares of size s, each of another GPU, from what is handed
// on, and returns what is left of that.
func (l *Ledger) again(s ShareSize, n int64, reuse []Device) (got, rest []Device) {
	for _, d := range reuse {
		other := !slices.ContainsFunc(got, func(g Device) bool { return g.UUID == d.UUID })
		if other && int64(len(got)) < n && l.enough(d, s) {
			got = append(got, d)
		} else {
			rest = append(rest, d)
		}
	}
	return got, rest
}
