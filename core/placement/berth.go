package placement

import "berth.dev/berth/core/cluster"

// Berth is Berth's own policy: it places a request where the milli-GPUs that
// later requests will still usefully fill shrink least.
//
// The worth of a node in state s, in milli-GPUs, is
//
//	V(s) = G*phi(C/(Kappa*W)) + Mu*M + Lambda*A*R
//
// G and W: what is expected to be filled of its holes, and the CPU for it,
// summed over its GPUs (see fillProduct); C its free CPU; phi(x) a smooth
// min(1, x), so that GPU that cannot be fed with CPU is worth less. M: 1000 for
// each idle GPU times the weight of the classes for several GPUs that fit now,
// those that may yet come included (Params.Spare).
// A: demand per GPU of its product from requests that may not use every
// product; R: its free milli-GPUs. The score is V after less V before, the
// largest over the GPUs that a share may take.
//
// The mix of classes is learned from Arrive alone, so a decision depends on
// nothing that comes later.
type Berth struct {
	p       Params
	s       *cluster.Snapshot
	mix     *Mix
	free    float64 // part of the GPUs that is free
	mu      float64 // Params.Mu, raised by turnover
	asked   int64   // milli-GPUs of all that came and was not refused, and of what was held before
	t       *tables
	feed    feed
	memory  []int64 // of a GPU of each product
	widest  int
	arrived int
	next    int // arrivals at which the tables are rebuilt
}

// NewBerth makes a Berth. It panics if params are not valid: a bug in the
// caller.
func NewBerth(setup Setup, params Params) *Berth {
	if err := params.Validate(); err != nil {
		panic(err)
	}
	b := &Berth{p: params, s: setup.Cluster, mix: NewMix(), feed: newFeed(params.K), next: 1}
	b.memory = make([]int64, len(b.s.ProductNames()))
	for i := range b.s.Len() {
		b.widest = max(b.widest, len(b.s.GPUs(i)))
		for j, c := range b.s.Cards(i) {
			g := &b.s.GPUs(i)[j]
			b.memory[g.Product] = max(b.memory[g.Product], c.MemoryBytes)
		}
	}
	b.asked = b.held()
	b.rebuild()
	return b
}

// held is the milli-GPUs held now.
func (b *Berth) held() int64 {
	sum := int64(0)
	for i := range b.s.Len() {
		for _, g := range b.s.GPUs(i) {
			sum += int64(cluster.Whole - g.FreeMilli)
		}
	}
	return sum
}

// Learn sets the mix at once, as after as many arrivals as its total. It makes
// all scores stale.
func (b *Berth) Learn(mix *Mix) {
	b.mix = mix
	b.rebuild()
}

// Mix is what has been learned. Read it only.
func (b *Berth) Mix() *Mix { return b.mix }

// rebuild computes the tables again. What came and is not held has left. That counts the
// request that comes just now, too: with the first ones of a new cluster it is as if much
// had left, so that they do not begin all of its nodes.
func (b *Berth) rebuild() {
	left := 0.0
	if b.asked > 0 {
		left = max(0, 1-float64(b.held())/float64(b.asked))
	}
	b.mu = b.p.Mu * (1 + b.p.Turnover*left)
	b.free = 1 - float64(b.held())/float64(max(1, b.s.TotalGPUs()*cluster.Whole))
	b.t = newTables(b.s, b.mix, &b.p, b.memory, b.widest, b.p.Spare*left*b.free)
}

// Arrive implements Policy. Tables are rebuilt after 1, 2, 3, 4, 6, 9, ...
// arrivals, and when that has come to Params.Rebuild, at that interval.
func (b *Berth) Arrive(r *cluster.Request) bool {
	b.mix.Add(r, 1)
	b.asked += r.TotalMilli()
	if b.arrived++; b.arrived < b.next {
		return false
	}
	every := min(max(1, b.arrived/2), max(b.p.Rebuild, b.s.Len()/3))
	if b.p.Memory > 0 {
		b.mix.Fade(halve(float64(every) / b.p.Memory))
	}
	b.mix.trim(mostMix)
	b.next = b.arrived + every
	b.rebuild()
	return true
}

// Refuse implements Policy.
func (b *Berth) Refuse(r *cluster.Request) { b.asked -= r.TotalMilli() }

// Ties implements Policy.
func (b *Berth) Ties() Ties { return TiesByRank }

// worth is the sums over a node's GPUs that V needs.
type worth struct {
	fill   hole    // G and W
	price  float64 // A*R
	places float64 // for MIG devices; part of M
}

// worthOf sums over the GPUs of node i.
func (b *Berth) worthOf(i int) worth {
	var w worth
	gpus, cut := b.s.GPUs(i), b.s.HasMIG(i)
	for j, o := range b.s.Open(i) {
		product := int(gpus[j].Product)
		if o > 0 {
			w.open(b, product, int32(o), 1)
		}
		if cut && b.mayCut(i, j) {
			g := b.cutOf(i, j)
			w.places += g.worth(b.t.cuts[product])
		}
	}
	return w
}

// mayCut reports whether GPU j of node i has places for MIG devices: it is cut, or
// is idle and may be.
func (b *Berth) mayCut(i, j int) bool {
	g := &b.s.GPUs(i)[j]
	return g.Healthy && b.t.cuts[g.Product] != nil &&
		(g.MIG || g.FreeMilli == cluster.Whole && b.s.Cards(i)[j].Recut != cluster.RecutNever)
}

// open adds sign times a GPU of product with r milli-GPUs open.
func (w *worth) open(b *Berth, product int, r int32, sign float64) {
	h := &b.t.fill[product*(steps+1)+stepOf(r)]
	w.fill.gpu += sign * h.gpu
	w.fill.cpu += sign * h.cpu
	w.price += sign * b.t.price[product] * float64(r)
}

// take makes milli of the o milli-GPUs open on GPU j of node i not open.
func (w *worth) take(b *Berth, i, j int, o, milli int32, cut bool) {
	product := int(b.s.GPUs(i)[j].Product)
	w.open(b, product, o, -1)
	if milli < o {
		w.open(b, product, o-milli, 1)
	}
	if cut && o == cluster.Whole && b.mayCut(i, j) {
		g := b.cutOf(i, j)
		w.places -= g.worth(b.t.cuts[product])
	}
}

// value is V, with cpu free and beside the row of tables.besideRow for it.
func (b *Berth) value(w *worth, cpu int64, beside []float64, idle int32) float64 {
	return w.fill.gpu*b.feed.phi(float64(cpu), b.p.Kappa*w.fill.cpu) +
		b.mu*(cluster.Whole*float64(idle)*beside[idle]+w.places) + b.p.Lambda*w.price
}

// Score implements Policy. The bonus of the request's class counts as so many
// milli-GPUs more. For requests without GPU, of nodes that lose as
// little the one with the least CPU left is best.
func (b *Berth) Score(s *cluster.Snapshot, i int, r *cluster.Request) Score {
	gain, _ := b.best(s, i, r)
	if r.Class != 0 {
		gain += float64(s.Verdict(r.Class, i).Bonus)
	}
	score := Score(floor64(gain/b.p.Quantum)) << 16
	if r.GPUs == 0 {
		left := (s.Node(i).FreeCPUMilli - r.CPUMilli) / 125
		score |= Score(max(0, 1<<16-1-left))
	}
	return score
}

// best returns V after less V before for r on node i, the largest there is, and for
// a share the GPU: an empty one only where it is better by more than
// Params.Begin.
func (b *Berth) best(s *cluster.Snapshot, i int, r *cluster.Request) (float64, int) {
	n := s.Node(i)
	cpu := n.FreeCPUMilli
	if n.Products == 0 {
		return 0, -1
	}
	w := b.worthOf(i)
	row := b.t.besideRow(n.Products, cpu)
	before := b.value(&w, cpu, row, n.Idle)
	cpu -= r.CPUMilli
	row = b.t.besideRow(n.Products, cpu)
	open, gpus, cut := s.Open(i), s.GPUs(i), s.HasMIG(i)
	if r.IsMIG() {
		w, idle, _ := b.chooseMIG(i, r, w, nil)
		return b.value(&w, cpu, row, idle) - before, -1
	}
	if r.GPUs == 0 {
		return b.value(&w, cpu, row, n.Idle) - before, -1
	}
	if r.IsWhole() {
		need := r.GPUs
		for j, o := range open {
			if need > 0 && o == cluster.Whole && r.Products.Has(gpus[j].Product) {
				w.take(b, i, j, cluster.Whole, cluster.Whole, cut)
				need--
			}
		}
		return b.value(&w, cpu, row, n.Idle-r.GPUs) - before, -1
	}
	milli, simple := MilliOn(s, i, r), Plain(s, i, r)
	best, liked, at, last := 0.0, 0.0, -1, -1
	for j, o := range open {
		if int32(o) < milli || simple && last >= 0 && o == open[last] && gpus[j].Product == gpus[last].Product || !simple && roomOn(s, i, j, r) != roomBoth {
			continue
		}
		last = j
		after, idle, begin := w, n.Idle, 0.0
		after.take(b, i, j, int32(o), milli, cut)
		if o == cluster.Whole {
			idle, begin = idle-1, b.p.Begin
		}
		gain := b.value(&after, cpu, row, idle) - before
		if at < 0 || gain > best {
			best = gain
		}
		if at < 0 || gain-begin > liked {
			liked, at = gain-begin, j
		}
	}
	return best, at
}

// Devices implements Policy.
func (b *Berth) Devices(s *cluster.Snapshot, i int, r *cluster.Request, out []cluster.Device) []cluster.Device {
	switch {
	case r.IsMIG():
		_, _, out = b.chooseMIG(i, r, worth{}, out)
		return out
	case r.GPUs != 1 || r.IsWhole():
		return Take(s, i, r, LeastOpen, out)
	}
	_, j := b.best(s, i, r)
	return append(out, DeviceOf(s, i, j, r))
}
