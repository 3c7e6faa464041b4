package placement

import (
	"math"

	"berth.dev/berth/core/cluster"
)

// block is how many nodes share one maximum.
const block = 64

// indexBytes bounds the scores that an Index keeps: 32 MiB. At 5,000 nodes that
// is 838 shapes; the least recently used ones go first.
const indexBytes = 32 << 20

// Index is a Placer that keeps, for each request shape, the score of every node
// and scores only those again that have changed since the shape was last asked
// for. Its answers equal those of Scan.
//
// A shape costs 8 bytes for each node and 8 for each 64 nodes.
type Index struct {
	s      *cluster.Snapshot
	p      Policy
	ranks  []int32
	byRank []int32
	rand   func(n int) int
	shapes map[cluster.Request]*shape
	last   *shape // asked for last
	epoch  int    // counts the times that the policy made scores stale
	asked  int64
	seen   []int64 // per node: asked, when it was last scored; so that a node changed twice is scored once
	most   int     // shapes kept
}

// shape is one request and its scores.
type shape struct {
	request cluster.Request
	keys    []uint64 // of each node; 0 is that it does not fit
	best    []uint64 // largest key of each block
	cursor  cluster.Cursor
	epoch   int
	asked   int64
	misfits *misfits // nil until Reasons asks
}

// NewIndex makes an Index of s for p. ranks breaks ties: a different number
// from 0 up to the number of nodes, less one, for each node, the lowest wins;
// nil ranks nodes in their order. rand gives a number from 0 up to n-1 and is
// needed only by policies whose Ties are random.
func NewIndex(s *cluster.Snapshot, p Policy, ranks []int32, rand func(n int) int) *Index {
	x := &Index{
		s: s, p: p, ranks: ranks, rand: rand, shapes: map[cluster.Request]*shape{},
		seen: make([]int64, s.Len()), most: max(16, indexBytes/(8*max(1, s.Len()))),
	}
	if ranks != nil {
		x.byRank = make([]int32, len(ranks))
		for i, rank := range ranks {
			x.byRank[rank] = int32(i)
		}
	}
	return x
}

// Arrive implements Placer.
func (x *Index) Arrive(r *cluster.Request) {
	t := typical(x.s, r)
	if x.p.Arrive(&t) {
		x.epoch++
	}
}

// Refuse implements Placer.
func (x *Index) Refuse(r *cluster.Request) {
	t := typical(x.s, r)
	x.p.Refuse(&t)
}

// Snapshot implements Placer.
func (x *Index) Snapshot() *cluster.Snapshot { return x.s }

// Policy implements Placer.
func (x *Index) Policy() Policy { return x.p }

// Best is BestFor where nothing is known of how long r stays.
func (x *Index) Best(r *cluster.Request) (int, bool) { return x.BestFor(r, Stay{}) }

// BestFor implements Placer.
func (x *Index) BestFor(r *cluster.Request, st Stay) (int, bool) {
	h := x.shape(r)
	x.bringUp(h)
	best := uint64(0)
	for b, most := range h.best {
		switch {
		case most <= best:
		case st.Run <= 0:
			best = most
		default:
			best = x.bestOf(h, b, st, best)
		}
	}
	switch {
	case best == 0:
		return 0, false
	case x.p.Ties() == TiesRandom:
		return x.draw(h, best), true
	}
	rank := cluster.MaxNodes - 1 - int(best&(cluster.MaxNodes-1))
	if x.byRank != nil {
		return int(x.byRank[rank]), true
	}
	return rank, true
}

// bestOf returns the largest key of a block for a request that stays as st says, or best if none is larger.
func (x *Index) bestOf(h *shape, b int, st Stay, best uint64) uint64 {
	for i := b * block; i < min(len(h.keys), (b+1)*block); i++ {
		if k := h.keys[i]; k > best {
			best = max(best, less(k, prolong(x.p, x.s, i, &h.request, st)))
		}
	}
	return best
}

// draw takes one of the nodes with key best at random.
func (x *Index) draw(h *shape, best uint64) int {
	n := 0
	for _, k := range h.keys {
		if k == best {
			n++
		}
	}
	n = x.rand(n)
	for i, k := range h.keys {
		if k != best {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	return -1 // not reached: rand gives less than n
}

// shape finds or makes the shape of r.
func (x *Index) shape(r *cluster.Request) *shape {
	x.asked++
	h := x.last
	if h == nil || h.request != *r {
		h = x.shapes[*r]
	}
	if h == nil {
		if len(x.shapes) >= x.most {
			x.dropOldest()
		}
		n := x.s.Len()
		h = &shape{request: *r, keys: make([]uint64, n), best: make([]uint64, (n+block-1)/block), epoch: -1}
		x.shapes[*r] = h
	}
	h.asked, x.last = x.asked, h
	return h
}

// dropOldest forgets the shape that was asked for longest ago.
func (x *Index) dropOldest() {
	var oldest *shape
	for _, h := range x.shapes {
		if oldest == nil || h.asked < oldest.asked {
			oldest = h
		}
	}
	delete(x.shapes, oldest.request)
}

// bringUp scores what has changed since h was last asked for.
func (x *Index) bringUp(h *shape) {
	changed, all := x.s.Changed(h.cursor)
	if all || h.epoch != x.epoch || len(changed) > 2*x.s.Len() {
		x.scoreAll(h)
	} else {
		for _, i := range changed {
			if x.seen[i] != x.asked {
				x.seen[i] = x.asked
				x.update(h, int(i))
			}
		}
	}
	h.cursor, h.epoch = x.s.Now(), x.epoch
}

// scoreAll scores every node.
func (x *Index) scoreAll(h *shape) {
	for b := range h.best {
		best := uint64(0)
		for i := b * block; i < min(len(h.keys), (b+1)*block); i++ {
			h.keys[i] = x.score(h, i)
			best = max(best, h.keys[i])
		}
		h.best[b] = best
	}
}

// update scores node i and keeps its block's maximum.
func (x *Index) update(h *shape, i int) {
	was, now := h.keys[i], x.score(h, i)
	h.keys[i] = now
	b := i / block
	switch {
	case now >= h.best[b]:
		h.best[b] = now
	case was == h.best[b]:
		best := uint64(0)
		for _, k := range h.keys[b*block : min(len(h.keys), (b+1)*block)] {
			best = max(best, k)
		}
		h.best[b] = best
	}
}

// score returns the key of node i.
func (x *Index) score(h *shape, i int) uint64 {
	why := Fit(x.s, i, &h.request)
	if h.misfits != nil {
		h.misfits.note(x.s, i, &h.request, why)
	}
	if why != Fits {
		return 0
	}
	rank := 0
	if x.p.Ties() == TiesByRank {
		rank = rankOf(x.ranks, i)
	}
	return key(scoreOf(x.p, x.s, i, &h.request), rank)
}

// floor64 is the largest whole number not above x, which is well within int64.
func floor64(x float64) int64 { return int64(math.Floor(x)) }
