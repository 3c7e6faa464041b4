package baseline

import (
	"cmp"
	"math"
	"slices"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
)

// fgd is Fragmentation Gradient Descent.
type fgd struct {
	placement.Steady
	total   float64 // of the weights kept
	classes []placement.Class
	cpus    []int64 // distinct CPU sizes of classes, ascending
	millis  []int32 // distinct milli-GPUs of classes for one GPU, ascending
	step    [cluster.Whole + 1]uint8
	tables  map[cluster.Products]*fgdTable
	last    cluster.Products
	lastT   *fgdTable
}

// fgdTable is what the classes that may use a node's products weigh.
type fgdTable struct {
	one   []float64 // [CPU step][milli step]: classes for one GPU that need at most that
	whole []float64 // [CPU step][idle GPUs, to 8]: classes for several whole GPUs
}

// NewFGD returns fgd: the node, and the GPU, where placing raises the expected
// fragmentation least. It expects the mix of Setup.Typical.
//
// Source: Weng et al., "Beware of Fragmentation", USENIX ATC '23, and its
// artifact: the classes that make up 95% of arrivals count; the score is
// floor(100*sigmoid(decrease/1000)), and the first GPU and the node of lowest
// rank win ties. The published figures depend on that rounding.
//
// Of a node with r_i milli-GPUs free on GPU i and R in all, a class that cannot
// be placed there finds R fragmented, another the sum of the r_i too small for
// it (classes for shares of several GPUs, which the paper has not, are left
// out). Summed over classes that is R*(all weights) - sum r_i*(weight of placeable
// classes that r_i is enough for), which takes two table look-ups a GPU.
func NewFGD(s placement.Setup) placement.Policy {
	p := &fgd{tables: map[cluster.Products]*fgdTable{}}
	classes := slices.Clone(s.Typical)
	slices.SortStableFunc(classes, func(a, b placement.Class) int {
		return cmp.Or(
			cmp.Compare(b.Weight, a.Weight), cmp.Compare(b.Request.CPUMilli, a.Request.CPUMilli),
			cmp.Compare(b.Request.MilliGPU, a.Request.MilliGPU), cmp.Compare(b.Request.GPUs, a.Request.GPUs),
			cmp.Compare(b.Request.Products, a.Request.Products),
		)
	})
	all := 0.0
	for _, c := range classes {
		all += c.Weight
	}
	for _, c := range classes {
		if p.total >= 0.95*all {
			break
		}
		p.total += c.Weight
		p.classes = append(p.classes, c)
		p.cpus = append(p.cpus, c.Request.CPUMilli)
		if c.Request.GPUs == 1 {
			p.millis = append(p.millis, c.Request.MilliGPU)
		}
	}
	slices.Sort(p.cpus)
	p.cpus = slices.Compact(p.cpus)
	slices.Sort(p.millis)
	p.millis = slices.Compact(p.millis)
	for r := range p.step {
		for p.step[r] = 0; int(p.step[r]) < min(len(p.millis), 255) && int(p.millis[p.step[r]]) <= r; {
			p.step[r]++
		}
	}
	return p
}

// table returns the table of a node with the given products.
func (p *fgd) table(products cluster.Products) *fgdTable {
	if p.lastT != nil && p.last == products {
		return p.lastT
	}
	t := p.tables[products]
	if t == nil {
		t = p.build(products)
		p.tables[products] = t
	}
	p.last, p.lastT = products, t
	return t
}

// build sums weights for a node with the given products.
func (p *fgd) build(products cluster.Products) *fgdTable {
	width := len(p.millis) + 1
	t := &fgdTable{one: make([]float64, (len(p.cpus)+1)*width), whole: make([]float64, (len(p.cpus)+1)*9)}
	for step := range len(p.cpus) + 1 {
		for _, c := range p.classes {
			r := &c.Request
			if r.GPUs == 0 || step == 0 || r.CPUMilli > p.cpus[step-1] || r.Products != 0 && r.Products&products == 0 {
				continue
			}
			switch {
			case r.GPUs == 1:
				for m := int(p.step[r.MilliGPU]); m < width; m++ {
					t.one[step*width+m] += c.Weight / p.total
				}
			case r.IsWhole():
				for k := r.GPUs; k <= 8; k++ {
					t.whole[step*9+int(k)] += c.Weight / p.total
				}
			}
		}
	}
	return t
}

// fgdState is a node for the purpose of fgd, apart from its GPUs one by one.
type fgdState struct {
	one   []float64 // row of fgdTable.one
	whole []float64
}

// at returns the rows for a node with cpu milli-CPU free.
func (p *fgd) at(t *fgdTable, cpu int64) fgdState {
	step, _ := slices.BinarySearch(p.cpus, cpu+1)
	width := len(p.millis) + 1
	return fgdState{t.one[step*width : (step+1)*width], t.whole[step*9 : (step+1)*9]}
}

// used is r times the weight of the one-GPU classes that r is enough for.
func (p *fgd) used(st *fgdState, r int32) float64 {
	return float64(r) * st.one[p.step[r]]
}

// Score implements placement.Policy.
func (p *fgd) Score(s *cluster.Snapshot, i int, r *cluster.Request) placement.Score {
	score, _ := p.best(s, i, r)
	return score
}

// best returns the score of node i for r and, for a share of one GPU, the GPU.
func (p *fgd) best(s *cluster.Snapshot, i int, r *cluster.Request) (placement.Score, int) {
	n, open := s.Node(i), s.Open(i)
	t := p.table(n.Products)
	before, after := p.at(t, n.FreeCPUMilli), p.at(t, n.FreeCPUMilli-r.CPUMilli)
	had, rest := 0.0, 0.0 // useful before; after, if no GPU were taken
	for _, o := range open {
		had += p.used(&before, int32(o))
		rest += p.used(&after, int32(o))
	}
	idle := float64(n.Idle)
	had += cluster.Whole * idle * before.whole[min(n.Idle, 8)]
	usefulWhole := func(idle int32) float64 {
		return cluster.Whole * float64(idle) * after.whole[min(idle, 8)]
	}
	milli := placement.MilliOn(s, i, r)
	if r.GPUs == 0 || r.IsWhole() {
		k := r.GPUs
		rest += usefulWhole(n.Idle-k) - float64(k)*p.used(&after, cluster.Whole)
		return rate(rest - had + float64(k*cluster.Whole)), -1
	}
	best, at := placement.Score(-1), -1
	simple := placement.Plain(s, i, r)
	for j, o := range open {
		if int32(o) < milli || !simple && !placement.HasRoom(s, i, j, r) {
			continue
		}
		left := n.Idle
		if o == cluster.Whole {
			left--
		}
		useful := rest - p.used(&after, int32(o)) + p.used(&after, int32(o)-milli) + usefulWhole(left)
		if score := rate(useful - had + float64(milli)); score > best {
			best, at = score, j
		}
	}
	return max(best, 0), at
}

// rate turns the decrease of fragmentation (in milli-GPUs) into the artifact's
// whole number from 0 to 100.
func rate(decrease float64) placement.Score {
	decrease = math.Round(decrease*1e6) / 1e6 // sums of equal terms in unequal order are equal
	return placement.Score(100 / (1 + math.Exp(-decrease/1000)))
}

// Devices implements placement.Policy.
func (p *fgd) Devices(s *cluster.Snapshot, i int, r *cluster.Request, out []cluster.Device) []cluster.Device {
	if r.GPUs != 1 || r.IsWhole() || r.IsMIG() {
		return placement.Take(s, i, r, placement.LeastOpen, out)
	}
	_, j := p.best(s, i, r)
	return append(out, placement.DeviceOf(s, i, j, r))
}
