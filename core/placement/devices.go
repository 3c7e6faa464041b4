package placement

import (
	"math/bits"

	"berth.dev/berth/core/cluster"
)

// Plain reports whether on node i a GPU has room for r as soon as its Open says
// so: one product, no shares by memory and no clique to look at.
func Plain(s *cluster.Snapshot, i int, r *cluster.Request) bool {
	return (r.Products == 0 || s.Node(i).Products&^r.Products == 0) &&
		!r.OneClique && r.GPUMemoryBytes == 0 && !s.MemoryShares(i)
}

// MilliOn returns what r takes of one GPU of node i: of the first of an allowed
// product, where that depends on the GPU.
func MilliOn(s *cluster.Snapshot, i int, r *cluster.Request) int32 {
	if r.GPUMemoryBytes == 0 && !r.IsMIG() {
		return r.MilliGPU
	}
	for j, g := range s.GPUs(i) {
		if !r.Products.Has(g.Product) {
			continue
		}
		if !r.IsMIG() {
			return cluster.ShareMilli(r.GPUMemoryBytes, s.Cards(i)[j].MemoryBytes)
		}
		if p := s.ProfileNumber(g.Product, r.Profile); p != 0 {
			return s.MIGDevice(i, j, p, 0).MilliGPU
		}
	}
	return 0
}

// Order says which GPU of a node is taken first.
type Order uint8

// The orders.
const (
	Lowest    Order = iota // by position
	LeastOpen              // the one with the least left, then by position
)

// Take appends devices of node i for r, which fits there, in order o.
func Take(s *cluster.Snapshot, i int, r *cluster.Request, o Order, out []cluster.Device) []cluster.Device {
	if r.IsMIG() {
		return takeMIG(s, i, r, o, out)
	}
	near := nearest(s, i, r)
	open := s.Open(i)
	var taken [2]uint64 // a bit for each GPU
	for range r.GPUs {
		best := -1
		for j := range open {
			if taken[j/64]&(1<<(j%64)) != 0 || near != nil && !near(j) || roomOn(s, i, j, r) != roomBoth {
				continue
			}
			if best < 0 || o == LeastOpen && open[j] < open[best] {
				best = j
			}
		}
		if best < 0 && r.Units {
			return stack(s, i, r, out)
		}
		if best < 0 {
			return out // not reached: r fits
		}
		taken[best/64] |= 1 << (best % 64)
		out = append(out, DeviceOf(s, i, best, r))
	}
	return out
}

// stack appends what is missing of r's units on GPUs of which units are taken
// already: one of each GPU that has more, the lowest first, and again.
func stack(s *cluster.Snapshot, i int, r *cluster.Request, out []cluster.Device) []cluster.Device {
	left := make([]int32, len(s.Cards(i)))
	for j, open := range s.Open(i) {
		if roomOn(s, i, j, r) == roomBoth {
			left[j] = int32(open) / r.MilliGPU
		}
	}
	for _, d := range out {
		left[d.GPU]--
	}
	for more := true; more; {
		more = false
		for j := range left {
			if left[j] > 0 && len(out) < int(r.GPUs) {
				out, more = append(out, DeviceOf(s, i, j, r)), true
				left[j]--
			}
		}
	}
	return out
}

// HasRoom reports whether GPU j of node i has room for a share or the whole that r
// asks of one GPU. It is not for MIG devices.
func HasRoom(s *cluster.Snapshot, i, j int, r *cluster.Request) bool {
	return roomOn(s, i, j, r) == roomBoth
}

// DeviceOf returns what r takes of GPU j of node i.
func DeviceOf(s *cluster.Snapshot, i, j int, r *cluster.Request) cluster.Device {
	milli, bytes := shareOf(r, &s.Cards(i)[j])
	return cluster.Device{GPU: int32(j), MilliGPU: milli, MemoryBytes: bytes}
}

// together reports whether GPUs j and k of node i share a clique.
func together(s *cluster.Snapshot, i, j, k int) bool {
	c := s.Cards(i)
	return j == k || c[j].Clique != 0 && c[j].Clique == c[k].Clique
}

// nearest says which GPUs of node i are to be taken for r, which fits there: of
// several whole GPUs those of one NVLink clique if one has enough, in it those
// of one NUMA node if one has, each time the one with the fewest that have room.
// nil is any. Source: as sharing.Ledger.Take.
func nearest(s *cluster.Snapshot, i int, r *cluster.Request) func(j int) bool {
	if !r.OneClique && (r.GPUs < 2 || !r.IsWhole()) {
		return nil
	}
	c := s.Cards(i)
	clique := tightest(s, i, r, func(j, k int) bool { return together(s, i, j, k) })
	if !r.OneClique && clique >= 0 && c[clique].Clique == 0 {
		clique = -1
	}
	inClique := func(j int) bool { return clique < 0 || together(s, i, clique, j) }
	numa := tightest(s, i, r, func(j, k int) bool {
		return inClique(j) && inClique(k) && c[j].NUMANode >= 0 && c[j].NUMANode == c[k].NUMANode
	})
	if numa < 0 {
		return inClique
	}
	return func(j int) bool { return inClique(j) && c[j].NUMANode == c[numa].NUMANode }
}

// tightest returns a GPU of the group with the fewest GPUs that have room for r,
// and still enough; -1 if none has enough. same says which are in one group.
func tightest(s *cluster.Snapshot, i int, r *cluster.Request, same func(j, k int) bool) int {
	best, fewest := -1, int32(0)
	for j := range s.Cards(i) {
		var n int32
		for k := range s.Cards(i) {
			if same(j, k) && roomOn(s, i, k, r) == roomBoth {
				n++
			}
		}
		if n >= r.GPUs && (best < 0 || n < fewest) {
			best, fewest = j, n
		}
	}
	return best
}

// migRoom is how many devices of profile p GPU j of node i has room for, each
// counted while the others are taken.
func migRoom(s *cluster.Snapshot, i, j int, p int8) int32 {
	starts := s.Starts(i, j, p)
	if starts == 0 {
		return 0
	}
	g := s.GPUs(i)[j]
	profile := &s.Profiles(int(g.Product))[p-1]
	free, same := s.ComputeSlices(int(g.Product)), 0
	for start, part := range g.Parts {
		if g.Held&(1<<start) != 0 {
			free -= s.Profiles(int(g.Product))[part-1].Slices
			if part == p {
				same++
			}
		}
	}
	return int32(min(bits.OnesCount8(starts), free/profile.Slices, profile.Max-same))
}

// takeMIG appends MIG devices of node i for r: GPUs in order o (least free
// first, or by position), and on each the lowest starts.
func takeMIG(s *cluster.Snapshot, i int, r *cluster.Request, o Order, out []cluster.Device) []cluster.Device {
	gpus := s.GPUs(i)
	var done [2]uint64
	for need := r.GPUs; need > 0; {
		best, room := -1, int32(0)
		for j := range gpus {
			if done[j/64]&(1<<(j%64)) != 0 || !r.Products.Has(gpus[j].Product) {
				continue
			}
			n := migRoom(s, i, j, s.ProfileNumber(gpus[j].Product, r.Profile))
			if n > 0 && (best < 0 || o == LeastOpen && gpus[j].FreeMilli < gpus[best].FreeMilli) {
				best, room = j, n
			}
		}
		if best < 0 {
			return out // not reached: r fits
		}
		done[best/64] |= 1 << (best % 64)
		p := s.ProfileNumber(gpus[best].Product, r.Profile)
		starts := s.Starts(i, best, p)
		for range min(need, room) {
			start := bits.TrailingZeros8(starts)
			starts &^= 1 << start
			out = append(out, s.MIGDevice(i, best, p, start))
			need--
		}
	}
	return out
}
