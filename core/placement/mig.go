package placement

import (
	"math/bits"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
)

// cutTable is what Berth's policy knows of GPUs of one product that are, or may
// be, cut into MIG devices.
type cutTable struct {
	profiles []gpu.Profile
	compute  int       // compute slices of the GPU
	ofa      int       // most optical flow units
	media    []int     // of each profile, gpu.Profile.MediaUnits
	weight   []float64 // of each profile, as p_c in fillProduct
	known    map[cutState]float64
}

// cutState is a GPU of which some devices are held: all that decides which
// others can be cut beside them.
type cutState struct {
	used    uint8 // memory slices
	compute uint8 // compute slices
	ofa     uint8 // optical flow units
	media   uint8 // gpu.Profile.MediaUnits
}

// with is st with a device of profile f (from 0) at start held too.
func (c *cutTable) with(st cutState, f, start int) cutState {
	p := &c.profiles[f]
	return cutState{st.used | uint8((1<<p.Size-1)<<start), st.compute + uint8(p.Slices), st.ofa + uint8(p.OFA), st.media + uint8(c.media[f])}
}

// starts are the places where profile f can be cut beside st. The most of a
// profile on one GPU follows from its places and the budgets, for every product
// of the catalog.
func (c *cutTable) starts(st cutState, f int) uint8 {
	p := &c.profiles[f]
	if int(st.compute)+p.Slices > c.compute || int(st.ofa)+p.OFA > c.ofa || int(st.media)+c.media[f] > gpu.MediaUnitsMost {
		return 0
	}
	out := uint8(0)
	for _, start := range p.Placements {
		if st.used&uint8((1<<p.Size-1)<<start) == 0 {
			out |= 1 << start
		}
	}
	return out
}

// one is the worth of a place for a device of profile f: its weight times its
// milli-GPUs, times its compute slices, because large devices find a place
// again so much more seldom.
func (c *cutTable) one(f int) float64 {
	slices := c.profiles[f].Slices
	return c.weight[f] * float64(cluster.Whole*slices*slices/c.compute)
}

// worth is the worth of the places that are open at once beside st, on a GPU
// that may be cut again around its held devices: of each profile as many devices
// as fit alone. So a device goes where it closes the least valuable geometries.
//
// The idea of counting what a placement makes impossible is that of minimal
// fragmentation increment (arXiv 2511.18906); the weights are learned.
func (c *cutTable) worth(st cutState) float64 {
	if v, ok := c.known[st]; ok {
		return v
	}
	sum := 0.0
	for f := range c.profiles {
		if c.weight[f] > 0 {
			n := min(bits.OnesCount8(c.starts(st, f)), (c.compute-int(st.compute))/c.profiles[f].Slices, c.profiles[f].Max)
			sum += c.one(f) * float64(n)
		}
	}
	c.known[st] = sum
	return sum
}

// newCut makes the table of a product from the classes for MIG devices.
func newCut(s *cluster.Snapshot, product int, mix *Mix) *cutTable {
	c := &cutTable{profiles: s.Profiles(product), compute: s.ComputeSlices(product), known: map[cutState]float64{}}
	c.weight = make([]float64, len(c.profiles))
	for f := range c.profiles {
		c.ofa = max(c.ofa, c.profiles[f].OFA)
		c.media = append(c.media, c.profiles[f].MediaUnits())
	}
	for _, class := range mix.Classes() {
		r := &class.Request
		f := int(s.ProfileNumber(uint8(product), r.Profile)) - 1
		if !r.IsMIG() || f < 0 || !r.Products.Has(uint8(product)) {
			continue
		}
		able := 0 // GPUs whose product has the profile
		for p := range s.ProductNames() {
			if r.Products.Has(uint8(p)) && s.ProfileNumber(uint8(p), r.Profile) != 0 {
				able += s.ProductGPUs(p)
			}
		}
		c.weight[f] += class.Weight / mix.Total() * float64(r.GPUs) * float64(s.TotalGPUs()) / float64(able)
	}
	return c
}

// cutGPU is one GPU while devices of it are chosen.
type cutGPU struct {
	recut cluster.Recut
	state cutState
	free  [8]int8 // profile number plus 1 of free devices that are cut already, by start
	empty bool    // nothing is held
}

// cutOf reads GPU j of node i.
func (b *Berth) cutOf(i, j int) cutGPU {
	g, c := &b.s.GPUs(i)[j], b.t.cuts[b.s.GPUs(i)[j].Product]
	out := cutGPU{recut: b.s.Cards(i)[j].Recut, empty: g.Held == 0}
	for start, part := range g.Parts {
		switch {
		case part == 0:
		case g.Held&(1<<start) != 0:
			out.state = c.with(out.state, int(part)-1, start)
		default:
			out.free[start] = part
		}
	}
	return out
}

// worth is the worth of the places open on g for MIG devices.
func (g *cutGPU) worth(c *cutTable) float64 {
	if g.recut == cluster.RecutFree || g.recut == cluster.RecutEmpty && g.empty {
		return c.worth(g.state)
	}
	sum := 0.0
	for _, part := range g.free {
		if part != 0 {
			sum += c.one(int(part) - 1)
		}
	}
	return sum
}

// hold is g with a device of profile f taken at start; takeMIG of package
// cluster in small.
func (g cutGPU) hold(c *cutTable, f, start int) cutGPU {
	if g.recut == cluster.RecutFree {
		g.free = [8]int8{}
	} else if int(g.free[start]) != f+1 { // an empty GPU is cut into devices of f
		g.free = [8]int8{}
		n := 1
		for _, s := range c.profiles[f].Placements {
			if s != start && n < c.profiles[f].Max && (n+1)*c.profiles[f].Slices <= c.compute {
				g.free[s] = int8(f + 1)
				n++
			}
		}
	}
	g.free[start] = 0
	g.state, g.empty = c.with(g.state, f, start), false
	return g
}

// starts are the places for a device of profile f on g after one was taken.
func (g *cutGPU) starts(c *cutTable, f int) uint8 {
	if g.recut == cluster.RecutFree {
		return c.starts(g.state, f)
	}
	out := uint8(0)
	for start, part := range g.free {
		if int(part) == f+1 {
			out |= 1 << start
		}
	}
	return out
}

// chooseMIG chooses devices of node i for r one by one, each where V falls
// least, and appends them to out. It gives what becomes of the node's worth and
// of its idle GPUs.
func (b *Berth) chooseMIG(i int, r *cluster.Request, w worth, out []cluster.Device) (worth, int32, []cluster.Device) {
	gpus := b.s.GPUs(i)
	idle := b.s.Node(i).Idle
	var buffer [8]cutGPU
	now := buffer[:0]
	var touched [2]uint64
	for j := range gpus {
		now = append(now, cutGPU{})
		if b.t.cuts[gpus[j].Product] != nil {
			now[j] = b.cutOf(i, j)
		}
	}
	for range r.GPUs {
		at, atStart, best := -1, 0, 0.0
		for j := range gpus {
			p := b.s.ProfileNumber(gpus[j].Product, r.Profile)
			if p == 0 || !r.Products.Has(gpus[j].Product) {
				continue
			}
			c, starts, loss := b.t.cuts[gpus[j].Product], uint8(0), 0.0
			if touched[j/64]&(1<<(j%64)) != 0 {
				starts = now[j].starts(c, int(p)-1)
			} else if starts = b.s.Starts(i, j, p); b.s.Open(i)[j] == cluster.Whole {
				loss = b.t.fill[int(gpus[j].Product)*(steps+1)+steps].gpu
			}
			before := now[j].worth(c)
			for ; starts != 0; starts &= starts - 1 {
				start := bits.TrailingZeros8(starts)
				next := now[j].hold(c, int(p)-1, start)
				if gain := b.mu*(next.worth(c)-before) - loss; at < 0 || gain > best {
					best, at, atStart = gain, j, start
				}
			}
		}
		if at < 0 {
			break // not reached: r fits
		}
		product := int(gpus[at].Product)
		p := b.s.ProfileNumber(uint8(product), r.Profile)
		next := now[at].hold(b.t.cuts[product], int(p)-1, atStart)
		w.places += next.worth(b.t.cuts[product]) - now[at].worth(b.t.cuts[product])
		if b.s.Open(i)[at] == cluster.Whole && touched[at/64]&(1<<(at%64)) == 0 {
			w.open(b, product, cluster.Whole, -1)
			idle--
		}
		now[at] = next
		touched[at/64] |= 1 << (at % 64)
		out = append(out, b.s.MIGDevice(i, at, p, atStart))
	}
	return w, idle, out
}
