package placement

import (
	"math"
	"slices"

	"berth.dev/berth/core/cluster"
)

// steps is how many steps of milli-GPUs a GPU has in the tables.
const steps = 100

// stepOf returns the step of r free milli-GPUs, rounded down.
func stepOf(r int32) int { return int(r) * steps / cluster.Whole }

// tables are what Berth's policy derives from a mix. They hold for one cluster.
type tables struct {
	fill   []hole      // by product and step of free milli-GPUs
	cuts   []*cutTable // by product; nil for those without MIG
	price  []float64   // by product: demand per GPU of requests that may not use every product
	cpus   []int64     // distinct CPU sizes of classes for several GPUs, ascending
	widest int         // most GPUs that any node has
	spare  float64     // weight of the requests for several GPUs of Params.Spare
	beside map[cluster.Products][]float64
	mix    []weighed
	last   cluster.Products // whose rows of beside were asked for last
	rows   []float64
}

// hole is what is expected of a hole: how much of it will be filled, in
// milli-GPUs, and with how many milli-CPU.
type hole struct{ gpu, cpu float64 }

// weighed is a class as the tables use it.
type weighed struct {
	r     cluster.Request
	share float64 // of all arrivals
	reach float64 // part of all GPUs that it may use
}

// newTables derives the tables from mix. memory is the bytes of a GPU of each
// product, spare as in tables.
func newTables(s *cluster.Snapshot, mix *Mix, p *Params, memory []int64, widest int, spare float64) *tables {
	t := &tables{widest: widest, spare: spare, beside: map[cluster.Products][]float64{}}
	for _, c := range mix.Classes() {
		w := weighed{r: c.Request, share: c.Weight / mix.Total(), reach: reach(s, c.Request.Products)}
		if c.Request.GPUs == 0 || w.reach == 0 || c.Request.IsMIG() {
			continue
		}
		t.mix = append(t.mix, w)
		if c.Request.GPUs > 1 {
			t.cpus = append(t.cpus, c.Request.CPUMilli)
		}
	}
	slices.Sort(t.cpus)
	t.cpus = slices.Compact(t.cpus)
	demand := 0.0
	for i := range t.mix {
		demand += t.mix[i].share * float64(t.mix[i].r.TotalMilli())
	}
	t.fill = make([]hole, len(memory)*(steps+1))
	t.price = make([]float64, len(memory))
	t.cuts = make([]*cutTable, len(memory))
	for product := range memory {
		t.fillProduct(product, memory[product], p)
		if len(s.Profiles(product)) > 0 {
			t.cuts[product] = newCut(s, product, mix)
		}
		for i := range t.mix {
			if w := &t.mix[i]; w.r.Products != 0 && w.r.Products.Has(uint8(product)) && demand > 0 {
				t.price[product] += w.share * float64(w.r.TotalMilli()) / (w.reach * demand)
			}
		}
	}
	return t
}

// reach is the part of all GPUs that the products are.
func reach(s *cluster.Snapshot, products cluster.Products) float64 {
	n := 0
	for p := range s.ProductNames() {
		if products.Has(uint8(p)) {
			n += s.ProductGPUs(p)
		}
	}
	return float64(n) / float64(max(1, s.TotalGPUs()))
}

// fillProduct computes the holes of one product.
//
// A hole of r meets requests one after the other, each of class c with weight
// p_c, or none any more, with weight Eps. The first that fits takes its part
// and leaves a smaller hole:
//
//	fill(r) = sum over c that fit r of p_c*(g_c + fill(r-g_c)) / (sum over them of p_c + Eps)
//
// and the same for the CPU that comes with it. A class for n GPUs counts as n
// classes for one, and a class that may use only a part of the GPUs comes to
// those so much more often.
func (t *tables) fillProduct(product int, memoryBytes int64, p *Params) {
	row := t.fill[product*(steps+1) : (product+1)*(steps+1)]
	var weight, cpu [steps + 1]float64 // of classes, by the steps they need
	for i := range t.mix {
		w := &t.mix[i]
		if !w.r.Products.Has(uint8(product)) {
			continue
		}
		milli := w.r.MilliGPU
		if w.r.GPUMemoryBytes > 0 {
			if w.r.GPUMemoryBytes > memoryBytes {
				continue
			}
			milli = cluster.ShareMilli(w.r.GPUMemoryBytes, memoryBytes)
		}
		need := (int(milli)*steps + cluster.Whole - 1) / cluster.Whole
		weight[need] += w.share * float64(w.r.GPUs) / w.reach
		cpu[need] += w.share * float64(w.r.CPUMilli) / w.reach
	}
	for r := 1; r <= steps; r++ {
		var sum hole
		all := p.Eps
		for g := 1; g <= r; g++ {
			if weight[g] == 0 {
				continue
			}
			all += weight[g]
			sum.gpu += weight[g] * (float64(g)*cluster.Whole/steps + row[r-g].gpu)
			sum.cpu += cpu[g] + weight[g]*row[r-g].cpu
		}
		row[r] = hole{sum.gpu / all, sum.cpu / all}
	}
	if p.Holes != nil {
		for r := range row {
			row[r].gpu = p.Holes[r]
		}
	}
}

// besideRow returns, by idle GPUs, the weight of the classes for several GPUs
// that fit a node of the given products with that many idle GPUs and cpu
// milli-CPU free.
func (t *tables) besideRow(products cluster.Products, cpu int64) []float64 {
	width := t.widest + 1
	if t.rows == nil || t.last != products {
		if t.rows = t.beside[products]; t.rows == nil {
			t.rows = t.newBeside(products)
			t.beside[products] = t.rows
		}
		t.last = products
	}
	step, _ := slices.BinarySearch(t.cpus, cpu+1)
	return t.rows[step*width : (step+1)*width]
}

// newBeside makes the rows of besideRow for nodes of the given products. Each size
// that may come, from two GPUs to all of the widest node, has an equal part of spare.
func (t *tables) newBeside(products cluster.Products) []float64 {
	width := t.widest + 1
	rows := make([]float64, (len(t.cpus)+1)*width)
	for i := range rows {
		if idle := i % width; idle >= 2 {
			rows[i] = t.spare * float64(idle-1) / float64(t.widest-1)
		}
	}
	for i := range t.mix {
		w := &t.mix[i]
		if w.r.GPUs < 2 || w.r.Products != 0 && w.r.Products&products == 0 {
			continue
		}
		from, _ := slices.BinarySearch(t.cpus, w.r.CPUMilli)
		for step := from + 1; step <= len(t.cpus); step++ {
			for idle := int(w.r.GPUs); idle < width; idle++ {
				rows[step*width+idle] += w.share / w.reach
			}
		}
	}
	return rows
}

// feed is a table of phi between 0 and feedMost, in steps of 1/feedSteps.
type feed struct{ at []float64 }

const (
	feedMost  = 8
	feedSteps = 512
)

// newFeed makes the table of phi(x) = (1 + x^-k)^(-1/k), a smooth min(1, x).
func newFeed(k float64) feed {
	f := feed{make([]float64, feedMost*feedSteps+2)}
	for i := range f.at {
		if i > 0 {
			f.at[i] = math.Pow(1+math.Pow(float64(i)/feedSteps, -k), -1/k)
		}
	}
	return f
}

// phi is the part of a node's holes that have CPU needs can be fed with has.
func (f *feed) phi(has, needs float64) float64 {
	if has >= feedMost*needs {
		return 1
	}
	x := has / needs * feedSteps
	i := int(x)
	return f.at[i] + (x-float64(i))*(f.at[i+1]-f.at[i])
}
