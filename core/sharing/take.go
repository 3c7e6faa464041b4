package sharing

import (
	"cmp"
	"fmt"
	"strconv"
)

// ResourceMemory is Berth's resource for a share of one GPU, in GiB of its
// memory. It is the Resource of every share by size, however it was asked for.
const ResourceMemory = "nvidia.com/gpu-memory"

// Take gives owner n free, healthy devices of a resource, in the order chosen,
// or none and an error. n of 0 gives none and no error.
//
// Whole GPUs come from one NVLink clique if one has enough free, in it from one
// NUMA node if one has, each time the one with the fewest free; then by index.
// Shares and MIG devices are chosen one by one from the GPU with the fewest of
// them held (with Sharing.Packed, the most); among equals from the GPU and the
// MIG device used least in this call, then by index. Several shares are of
// different GPUs as far as there are, as of one GPU they are worth no more than
// one, unless Sharing.Packed is set.
//
// The error reads as the kubelet's. A request of several shares is one where
// Sharing.FailRequestsGreaterThanOne is set. Shares by size are taken with
// TakeShares.
//
// Source: GetPreferredAllocation of NVIDIA's device plugin 0.20, made
// deterministic.
func (l *Ledger) Take(owner, resource string, n int) ([]Device, error) {
	return l.take(owner, resource, n, 0)
}

// take is Take of devices that have at least so many bytes of memory.
func (l *Ledger) take(owner, resource string, n int, least int64) ([]Device, error) {
	if owner == "" {
		return nil, errNoOwner
	}
	if n < 0 {
		return nil, fmt.Errorf("%d devices of %s: ask for 0 at least", n, resource)
	}
	if n == 0 {
		return nil, nil
	}
	offered, free := 0, []Device(nil)
	for _, d := range l.devices {
		if d.Resource != resource {
			continue
		}
		if d.Healthy {
			offered++
			if d.MemoryBytes >= least && l.clash(d) == nil {
				free = append(free, d)
			}
		}
	}
	_, known := Capacity(l.devices)[resource]
	if known && offered == 0 {
		return nil, fmt.Errorf("Allocate failed due to no healthy devices present; cannot allocate unhealthy devices %s, which is unexpected", resource)
	}
	if len(free) < n {
		return nil, unavailable(resource, strconv.Itoa(n), strconv.Itoa(len(free)))
	}
	shared := free[0].ID != free[0].UUID
	if shared && n > 1 && l.sharing.FailRequestsGreaterThanOne {
		return nil, &TooManyShares{Resource: resource, Count: n}
	}
	var picked []Device
	if shared || free[0].Profile != "" {
		picked = pickParts(free, l.load(resource), n, l.sharing.Packed)
	} else {
		picked = pickWhole(free, n)
	}
	for _, d := range picked {
		l.hold(owner, d)
	}
	return picked, nil
}

// TooManyShares refuses a request of several shares on a node that is configured
// to give one only.
type TooManyShares struct {
	Resource string
	Count    int
}

// Error reads as the kubelet's and the device plugin's.
func (e *TooManyShares) Error() string {
	return fmt.Sprintf("Allocate failed due to rpc error: code = Unknown desc = invalid request: maximum request size for shared resources is 1; found %d, which is unexpected", e.Count)
}

// unavailable is the kubelet's text, word for word.
func unavailable(resource, requested, available string) error {
	return fmt.Errorf("Allocate failed due to requested number of devices unavailable for %s. Requested: %s, Available: %s, which is unexpected",
		resource, requested, available)
}

// pickWhole chooses n of free, which are whole GPUs in index order.
func pickWhole(free []Device, n int) []Device {
	from := free
	if of := fullest(from, n, func(d Device) (int, bool) { return d.Clique, d.Clique != 0 }); of != nil {
		from = of
	}
	if of := fullest(from, n, func(d Device) (int, bool) { return d.NUMANode, d.NUMANode >= 0 }); of != nil {
		from = of
	}
	return from[:n:n]
}

// fullest groups devices and gives the smallest group with at least n, ties by
// the lowest index in it; nil if none has.
func fullest(free []Device, n int, group func(Device) (int, bool)) []Device {
	groups := map[int][]Device{}
	for _, d := range free {
		if key, ok := group(d); ok {
			groups[key] = append(groups[key], d)
		}
	}
	var best []Device
	for _, of := range groups {
		if len(of) < n {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(len(of), len(best)), cmp.Compare(of[0].GPU, best[0].GPU)) < 0 {
			best = of
		}
	}
	return best
}
