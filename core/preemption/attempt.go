package preemption

import (
	"slices"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
)

// The most times that one search, and the search of one node in it, ask whether
// a request fits. Beyond, a search takes the first way it finds.
const (
	mostTries     = 20000
	mostNodeTries = 2000
)

// attempt is one search for victims, on a clone of the cluster. Holders are numbered through
// all nodes.
type attempt struct {
	c   *Cluster
	p   *Preemptor
	s   *cluster.Snapshot // with who leaves gone, and promises kept
	fit placement.Policy  // says which devices are taken of those that are free

	first   []int      // number of the first holder of each node
	ids     []ID       // by holder
	costs   []Cost     // by holder
	gone    []bool     // by holder: leaves, or is a victim
	may     []bool     // by holder: may be a victim, for itself
	stays   []bool     // by holder: a search has decided that it stays
	open    *candidate // of the search under way: those of it that do not stay are gone; nil is none
	partial []int      // promises that may be broken, of what others still hold in part
	trail   []int      // the victims, in the order in which they were chosen

	gangs  map[string]*gang
	budget []int // evictions left
	tries  int   // left
	member int   // for which a place is looked for, where there are Filters

	queues  map[cluster.Request]*queue
	touched []int // nodes that a placement or a victim has changed, oldest first
	epoch   int   // counts the victims with a gang or a budget, on which costs elsewhere depend
}

// gang is the members of one gang, among the holders.
type gang struct {
	members []int
	alive   int // members that stay
	min     int
	fixed   bool // a member must not go
}

// newAttempt starts the search for p on a clone of c's Snapshot.
func newAttempt(c *Cluster, p *Preemptor, cost func(*Holder) Cost) *attempt {
	t := &attempt{
		c: c, p: p, s: c.Snapshot.Clone(), fit: placement.NewBestFit(placement.Setup{}),
		first: make([]int, len(c.Holders)+1), gangs: map[string]*gang{}, budget: slices.Clone(c.Budgets), tries: mostTries,
		queues: map[cluster.Request]*queue{},
	}
	for i := range c.Holders {
		t.first[i+1] = t.first[i] + len(c.Holders[i])
	}
	n := t.first[len(c.Holders)]
	t.ids, t.costs = make([]ID, n), make([]Cost, n)
	t.gone, t.may, t.stays = make([]bool, n), make([]bool, n), make([]bool, n)
	for i := range c.Holders {
		for k := range c.Holders[i] {
			t.ids[t.first[i]+k] = ID{Node: i, Holder: k}
			t.enter(t.first[i]+k, &c.Holders[i][k], cost)
		}
	}
	for i := range c.Holders {
		for k := range c.Holders[i] {
			if h := &c.Holders[i][k]; h.Promise && t.s.Assume(&h.Placement) != nil {
				if t.may[t.first[i]+k] {
					t.partial = append(t.partial, t.first[i]+k)
				} else {
					t.promised(h)
				}
				t.may[t.first[i]+k], t.gone[t.first[i]+k] = false, true // it holds nothing that could come free
			}
		}
	}
	return t
}

// enter notes holder h, and lets it go if it leaves.
func (t *attempt) enter(n int, h *Holder, cost func(*Holder) Cost) {
	t.costs[n] = cost(h)
	if h.Leaving {
		t.gone[n] = h.Promise || t.s.Release(&h.Placement) == nil
		return
	}
	t.may[n] = h.Priority < t.p.Priority && !h.Fixed && (h.Gang == "" || h.Gang != t.p.Gang) && t.within(h)
	if h.Gang == "" {
		return
	}
	g := t.gangs[h.Gang]
	if g == nil {
		g = &gang{min: t.c.MinCount[h.Gang]}
		t.gangs[h.Gang] = g
	}
	g.members = append(g.members, n)
	g.alive++
	g.fixed = g.fixed || !t.may[n]
}

// promised keeps the devices of a promise that others still hold in part: those that are
// free are taken, and the holders of the others stay, as their end would help the promise alone.
func (t *attempt) promised(h *Holder) {
	i, part := h.Placement.Node, h.Placement.Request
	part.CPUMilli, part.MemoryBytes, part.GPUs = 0, 0, 1
	for _, d := range h.Placement.Devices {
		if t.s.Assume(&cluster.Placement{Node: i, Request: part, Devices: []cluster.Device{d}}) == nil {
			continue
		}
		for k := range t.c.Holders[i] {
			other, n := &t.c.Holders[i][k], t.first[i]+k
			if other.Promise || !slices.ContainsFunc(other.Placement.Devices, func(o cluster.Device) bool { return o.GPU == d.GPU }) {
				continue
			}
			t.may[n] = false
			if g := t.gangs[other.Gang]; g != nil {
				g.fixed = true
			}
		}
	}
}

// within reports whether h's budgets allow one more eviction.
func (t *attempt) within(h *Holder) bool {
	for _, b := range h.Budgets {
		if t.budget[b] <= 0 {
			return false
		}
	}
	return true
}

// holder returns holder n.
func (t *attempt) holder(n int) *Holder {
	id := t.ids[n]
	return &t.c.Holders[id.Node][id.Holder]
}

// pick makes holder n a victim, and with it its gang, if that cannot go on. It
// gives what they cost. Where one of them must not go, ok is false and none is
// picked. The Snapshot is as before.
func (t *attempt) pick(n int) (cost Cost, ok bool) {
	mark := len(t.trail)
	g, leads := t.gangs[t.holder(n).Gang], t.holder(n).Leads
	if g == nil || !leads && g.min > 0 && g.alive-1 >= g.min {
		if !t.pickOne(n) {
			return Cost{}, false
		}
		return t.costs[n], true
	}
	if g.fixed {
		return Cost{}, false
	}
	for _, m := range g.members {
		if t.gone[m] {
			continue
		}
		if !t.pickOne(m) {
			t.unpick(mark)
			return Cost{}, false
		}
		cost = cost.plus(t.costs[m])
	}
	cost.Ends += oneGang
	return cost, true
}

// pickOne makes n alone a victim.
func (t *attempt) pickOne(n int) bool {
	h := t.holder(n)
	if !t.may[n] || !t.within(h) {
		return false
	}
	t.gone[n] = true
	t.trail = append(t.trail, n)
	for _, b := range h.Budgets {
		t.budget[b]--
	}
	if g := t.gangs[h.Gang]; g != nil {
		g.alive--
	}
	return true
}

// unpick undoes the picks after the first mark victims.
func (t *attempt) unpick(mark int) {
	for _, n := range t.trail[mark:] {
		h := t.holder(n)
		t.gone[n] = false
		for _, b := range h.Budgets {
			t.budget[b]++
		}
		if g := t.gangs[h.Gang]; g != nil {
			g.alive++
		}
	}
	t.trail = t.trail[:mark]
}

// back assumes h again, and says whether there is room. A GPU that has failed
// keeps who held it, though it evicts no others.
func (t *attempt) back(h *Holder) bool {
	i := h.Placement.Node
	for _, d := range h.Placement.Devices {
		if j := int(d.GPU); !t.s.GPUs(i)[j].Healthy {
			t.s.SetHealthy(i, j, true)
			defer t.s.SetHealthy(i, j, false)
		}
	}
	return t.s.Assume(&h.Placement) == nil
}

// fits reports whether r fits node i now, and counts the question.
func (t *attempt) fits(i int, r *cluster.Request) bool {
	t.tries--
	return placement.Fit(t.s, i, r) == placement.Fits && (t.open != nil && t.open.allowed || t.allows(i))
}

// triesToAllow is how many questions of fits one of Preemptor.Allows counts as.
const triesToAllow = 20

// allows reports whether Preemptor.Allows lets the preemptor go to node i, with those
// gone who leave, who are victims, and of whom a search under way has not decided
// that they stay.
func (t *attempt) allows(i int) bool {
	if t.p.Allows == nil && t.p.Filters == nil {
		return true
	}
	t.tries -= triesToAllow
	if t.p.Filters != nil {
		return t.p.Filters.Allows(t.member, i, t.goneFor(i))
	}
	return t.p.Allows(i, t.goneOn(i))
}

// take assumes r on node i, where it fits.
func (t *attempt) take(i int, r *cluster.Request) cluster.Placement {
	p := cluster.Placement{Node: i, Request: *r}
	if r.GPUs > 0 {
		q := t.s.Resolve(i, r)
		p.Devices = t.fit.Devices(t.s, i, &q, make([]cluster.Device, 0, r.GPUs))
	}
	if err := t.s.Assume(&p); err != nil {
		panic(err) // the policy chose what is not free: a bug
	}
	return p
}
