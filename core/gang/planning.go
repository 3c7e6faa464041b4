package gang

import (
	"cmp"
	"slices"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
)

// planning is the state of one call of Plan.
type planning struct {
	p       placement.Placer
	s       *cluster.Snapshot // p's
	filters Filters           // nil: none
	// asked counts the calls of choose; refusedAt is the last for which the Filters
	// refused each node.
	asked     int
	refusedAt []int
	topo      *Topology
	g         *Gang
	most      int // domains tried of each level

	limit int // members that may be placed

	order       []int // members in the order in which they are placed
	shapes      []shape
	shape       []int              // of each member, its place in shapes
	sum         *cluster.Request   // of all members with GPUs; nil where they cannot be one request
	shared      bool               // some nodes share GPUs: units of two members may be parts of one
	all         []int32            // every node
	used        []bool             // of each node: a member with GPUs is on it
	inside      []bool             // of each node: it is in the domain that is tried
	taken       map[apartNode]bool // by members that must be apart from others
	avoidShares bool               // shares for several GPUs count as no fit: see setAvoidShares
	best        *Refusal           // of the attempts so far, where most fitted
}

// apartNode is the one place on a node for a member of an Apart.
type apartNode struct {
	apart string
	node  int
}

// shape is one request that members share.
type shape struct {
	request cluster.Request
	count   int               // members
	alone   bool              // all of them have the same Apart: a node has room for one at most
	caps    []int32           // of each node, how many it has room for at most; nil: not counted yet
	scored  bool              // fits and score hold for the domain that is tried
	fits    []bool            // of each node
	score   []placement.Score // of each node that fits
}

func newPlanning(p *Planner, g *Gang) *planning {
	s := p.Placer.Snapshot()
	n := s.Len()
	t := &planning{
		p: p.Placer, s: s, filters: p.Filters, topo: p.Topology, g: g, most: cmp.Or(p.Domains, 16),
		shape: make([]int, len(g.Members)), all: make([]int32, n), used: make([]bool, n), inside: make([]bool, n), refusedAt: make([]int, n),
	}
	known, apart := map[cluster.Request]int{}, []string(nil)
	for i := range g.Members {
		r := g.Members[i].Request
		k, ok := known[r]
		if !ok {
			k = len(t.shapes)
			known[r] = k
			t.shapes = append(t.shapes, shape{request: r, alone: g.Members[i].Apart != "", fits: make([]bool, n), score: make([]placement.Score, n)})
			apart = append(apart, g.Members[i].Apart)
		}
		t.shapes[k].alone = t.shapes[k].alone && g.Members[i].Apart == apart[k]
		t.shape[i] = k
		t.shapes[k].count++
		t.order = append(t.order, i)
	}
	slices.SortStableFunc(t.order, func(a, b int) int { return harder(&g.Members[a].Request, &g.Members[b].Request) })
	for i := range t.all {
		t.all[i] = int32(i)
	}
	for _, i := range g.Near {
		if i >= 0 && i < n {
			t.used[i] = true
		}
	}
	t.sum = total(g)
	for i := range t.all {
		t.shared = t.shared || s.Node(i).Shares > 1
	}
	return t
}

// harder orders requests: those that are harder to place come first.
func harder(a, b *cluster.Request) int {
	whole := func(r *cluster.Request) int32 {
		if r.IsWhole() {
			return r.GPUs
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(whole(b), whole(a)),
		cmp.Compare(min(b.GPUs, 1), min(a.GPUs, 1)),
		cmp.Compare(b.TotalMilli(), a.TotalMilli()),
		cmp.Compare(b.GPUMemoryBytes, a.GPUMemoryBytes),
		cmp.Compare(b.GPUs, a.GPUs),
		cmp.Compare(b.CPUMilli, a.CPUMilli),
		cmp.Compare(b.MemoryBytes, a.MemoryBytes),
	)
}

// total adds up the members with GPUs to one request, or gives nil where they
// cannot be one: some ask for parts of GPUs, for a clique each, for other nodes
// than the rest, or to be apart.
func total(g *Gang) *cluster.Request {
	var sum cluster.Request
	for i := range g.Members {
		r := &g.Members[i].Request
		if r.GPUs == 0 {
			continue
		}
		if sum.GPUs == 0 {
			sum.MilliGPU, sum.Products, sum.Units, sum.Class, sum.SharesDo = cluster.Whole, r.Products, r.Units, r.Class, true
		}
		same := r.Products == sum.Products && r.Units == sum.Units && r.Class == sum.Class
		if !same || !r.IsWhole() || r.OneClique || len(g.Members[i].Avoid) > 0 || g.Members[i].Apart != "" || sum.GPUs+r.GPUs > 127 {
			return nil
		}
		sum.CPUMilli += r.CPUMilli
		sum.MemoryBytes += r.MemoryBytes
		sum.GPUs += r.GPUs
		sum.SharesDo = sum.SharesDo && (r.GPUs == 1 || r.SharesDo)
	}
	if sum.GPUs == 0 {
		return nil
	}
	return &sum
}

// domains gives the domains of level l, from Node up, that hold Gang.Near. Those
// with the least milli-GPUs open come first.
func (t *planning) domains(l Level) [][]int32 {
	var out [][]int32
	switch l {
	case Cluster:
		return [][]int32{t.all}
	case Node:
		for i := range t.all {
			if t.near(Node, i) {
				out = append(out, t.all[i:i+1])
			}
		}
	default:
		for _, d := range t.topo.nodes(l) {
			if t.near(l, int(d[0])) && (len(d) < len(t.all) || l == t.g.Within) {
				out = append(out, d)
			}
		}
	}
	open := make(map[int32]int64, len(out)) // by first node
	for _, d := range out {
		for _, i := range d {
			open[d[0]] += int64(t.s.Node(int(i)).OpenMilli)
		}
	}
	slices.SortStableFunc(out, func(a, b []int32) int {
		return cmp.Or(cmp.Compare(open[a[0]], open[b[0]]), cmp.Compare(a[0], b[0]))
	})
	return out
}

// near says whether the domain of node i at level l holds all of Gang.Near.
func (t *planning) near(l Level, i int) bool {
	for _, n := range t.g.Near {
		if !t.topo.Share(l, n, i) {
			return false
		}
	}
	return true
}

// room is how many members the nodes of a domain have room for, at most: each
// shape is counted as if it were alone. Members without GPUs all count, as they
// may go elsewhere.
func (t *planning) room(domain []int32) int {
	members := 0
	for k := range t.shapes {
		h := &t.shapes[k]
		if h.request.GPUs == 0 {
			members += h.count
			continue
		}
		if h.caps == nil {
			h.caps = make([]int32, len(t.all))
			for i := range h.caps {
				if h.caps[i] = capacity(t.s, i, &h.request); h.alone {
					h.caps[i] = min(h.caps[i], 1)
				}
			}
		}
		sum := 0
		for _, i := range domain {
			if sum += int(h.caps[i]); sum >= h.count {
				break
			}
		}
		members += min(sum, h.count)
	}
	return members
}

// capacity is how many times r, which asks for GPUs, fits node i, or a number
// above that: it looks at sums only.
func capacity(s *cluster.Snapshot, i int, r *cluster.Request) int32 {
	if placement.Fit(s, i, r) != placement.Fits {
		return 0
	}
	n, q := s.Node(i), s.Resolve(i, r)
	r, most := &q, int64(n.FreePods)
	if r.CPUMilli > 0 {
		most = min(most, n.FreeCPUMilli/r.CPUMilli)
	}
	if r.MemoryBytes > 0 {
		most = min(most, n.FreeMemoryBytes/r.MemoryBytes)
	}
	switch {
	case r.IsMIG():
		most = min(most, int64(7*len(s.GPUs(i)))/int64(r.GPUs))
	case r.IsWhole():
		most = min(most, int64(n.Idle/r.GPUs))
	case r.GPUMemoryBytes > 0:
		sum := int64(0)
		for _, g := range s.GPUs(i) {
			sum += g.FreeBytes / r.GPUMemoryBytes
		}
		most = min(most, sum/int64(r.GPUs))
	default:
		most = min(most, int64(n.OpenMilli)/r.TotalMilli())
	}
	return int32(most)
}
