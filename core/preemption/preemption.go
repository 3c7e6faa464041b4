// Package preemption decides which pods to evict, so that a workload that fits nowhere
// gets devices it really can have: a share on the right GPU, eight GPUs of one
// node, places for MIG devices, a gang as a whole, and CPU and memory too. It
// says which devices of which node the workload then gets. It evicts no pod itself, and
// it does not ask whether the workload may preempt at all.
package preemption

import (
	"slices"
	"time"

	"berth.dev/berth/core/checkpoint"
	"berth.dev/berth/core/cluster"
)

// Holder is who holds a part of one node: a pod that runs there, one that is
// leaving, or a promise to one that is still to come.
type Holder struct {
	// Placement is what comes free when the holder goes, as it was assumed on the
	// Snapshot. Its Node is that of the list the Holder is in.
	Placement cluster.Placement
	Priority  int32
	Start     time.Time // since when it runs; zero has lost nothing
	Ends      time.Time // when it ends at the latest, as it declares, or as most like it have; zero is not known
	Saves     checkpoint.Saves
	Gang      string // of which it is a member; "" is none
	Leads     bool   // its gang ends without it, however many members are left
	Budgets   []int  // positions in Cluster.Budgets that its eviction is counted on
	Fixed     bool   // must not be evicted, whatever its priority
	Leaving   bool   // goes by itself: it costs nothing, and is never a victim
	Promise   bool   // no pod runs there yet: breaking it evicts none
	Awaited   bool   // its end is waited for already; only Await asks
}

// Cluster is the nodes and who holds them.
type Cluster struct {
	// Snapshot has every Placement of Holders assumed, except for promises of what
	// is still held by others. Plans are made on a clone.
	Snapshot *cluster.Snapshot
	Holders  [][]Holder     // by node of the Snapshot
	MinCount map[string]int // of gangs: with fewer members left, all of them go; default all
	Budgets  []int          // evictions allowed now, of each disruption budget
}

// Preemptor is what needs room: one request, or a gang's.
type Preemptor struct {
	// Members are placed in order; at least MinCount of them (0 is all), or
	// none. No pod is evicted for the others.
	Members  []cluster.Request
	MinCount int
	Priority int32
	Gang     string // of which they are members, as in Holder: none of it goes; "" is none
	// Node says whether a node may be used; nil is that every node may. What a
	// request's class or products exclude need not be said here again.
	Node func(i int) bool
	// Allows says, where there is one member, whether what the Snapshot has no words
	// for lets it go to a node once the holders gone have left: ports, spreading,
	// affinity between pods. More gone must not make it say no; nil is always yes.
	Allows func(node int, gone []ID) bool
	// Filters says the same where there are several members; nil is always yes.
	Filters Filters
}

// Filters is what the Snapshot has no words for, of members that are placed one after the
// other: the answer for one depends on those that are placed already. More gone on the
// node must not make it say no.
type Filters interface {
	// Begin forgets what is placed.
	Begin()
	// Kind returns a number that is equal for members that are always answered alike.
	Kind(member int) int
	// Allows reports whether a member may go to a node beside those that are placed, with
	// the holders gone having left.
	Allows(member, node int, gone []ID) bool
	// Place notes that a member goes to a node, with the holders gone having left.
	Place(member, node int, gone []ID)
	// Stand reports whether all of placed may go where they are, in some order, with the
	// holders gone having left. All earlier placements are forgotten.
	Stand(placed []cluster.Placement, gone []ID) bool
}

// ID names a Holder: Cluster.Holders[Node][Holder].
type ID struct{ Node, Holder int }

// Compare orders IDs by node.
func (a ID) Compare(b ID) int {
	if a.Node != b.Node {
		return a.Node - b.Node
	}
	return a.Holder - b.Holder
}

// Plan is what Find decides.
type Plan struct {
	// Placements has an entry for each of Preemptor.Members; those left out have
	// Node -1.
	Placements []cluster.Placement
	// Victims are to be evicted, by node. A member of a gang that would
	// be left with fewer than its MinCount is there with all of its gang.
	Victims []ID
	Broken  []ID // promises to break, by node
	// Awaited are holders that leave by themselves and without which a placement
	// does not fit, by node.
	Awaited []ID
	Cost    Cost
}

// Refusal counts, node by node, why no Plan was found.
type Refusal struct {
	Nodes     int // all
	Closed    int // are not for the request: see Preemptor.Node and cluster.Verdict
	NoVictims int // hold no pod of lower priority, or only Fixed ones
	TooSmall  int // would not do even if all those went
	// ShortMilli is how many milli-GPUs at least must become free of holders that must
	// stay before there can be a plan; 0 is not known.
	ShortMilli int64
	Protected  int // hold pods that a budget keeps, or would do if no budget, gang or fixed member of one stood against it
}

// Find looks for the cheapest plan (Cost) for p. No pod is evicted whose priority is not
// below p's, that is Fixed, or for which a budget has nothing left; of a gang that
// falls below its MinCount all go, and if one of them must not, none does. No
// victim of the plan could be spared.
//
// For one member the plan is the cheapest there is, as long as the search stays
// within its limit (some thousand tries, about ten milliseconds); beyond, it
// is the best that was found, still with none to spare. A gang's members
// are placed one after the other, each at the least cost then.
//
// No pod is evicted for shares where several GPUs are asked for, if there is a plan that
// gives GPUs: see cluster.Snapshot.SharesLast.
//
// Equal arguments give equal plans. now is what Start is compared with.
func Find(c *Cluster, p *Preemptor, now time.Time) (Plan, Refusal, bool) {
	last := c.saved()
	return findBy(c, p, func(h *Holder) Cost { return costOf(h, last[h.Gang], now) })
}

// findBy is Find by another cost of each holder.
func findBy(c *Cluster, p *Preemptor, cost func(*Holder) Cost) (Plan, Refusal, bool) {
	if may, some := p.whole(c.Snapshot); some {
		q := *p
		q.Node = may
		if plan, _, ok := find(c, &q, cost); ok {
			return plan, Refusal{}, true
		}
	}
	return find(c, p, cost)
}

// whole says of which nodes no member that asks for several GPUs would get shares,
// and whether there are others.
func (p *Preemptor) whole(s *cluster.Snapshot) (may func(i int) bool, some bool) {
	last := func(i int) bool {
		return slices.ContainsFunc(p.Members, func(r cluster.Request) bool { return s.SharesLast(i, &r) })
	}
	for i := range s.Len() {
		if s.Node(i).Shares > 1 && last(i) {
			some = true
			break
		}
	}
	return func(i int) bool { return !last(i) && (p.Node == nil || p.Node(i)) }, some
}

// find is Find on the nodes that p may use.
func find(c *Cluster, p *Preemptor, cost func(*Holder) Cost) (Plan, Refusal, bool) {
	t := newAttempt(c, p, cost)
	need := p.MinCount
	if need <= 0 || need > len(p.Members) {
		need = len(p.Members)
	}
	plan := Plan{Placements: make([]cluster.Placement, len(p.Members))}
	var refusal Refusal
	if p.Filters != nil {
		if refusal, ok := t.filtered(&plan, need); !ok {
			return Plan{}, refusal, false
		}
		t.spare(plan.Placements)
		t.report(&plan)
		return plan, Refusal{}, true
	}
	placed, begun := 0, t.s.Mark()
	for k := range p.Members {
		r := &p.Members[k]
		plan.Placements[k] = cluster.Placement{Node: -1, Request: *r}
		q := t.queue(r)
		at, victims, ok := q.cheapest(placed < need)
		if !ok {
			if refusal = q.refusal(); placed+len(p.Members)-k-1 < need {
				if t.s.RollBack(begun); refusal.Protected == 0 {
					refusal.ShortMilli = max(0, t.short(need))
				}
				return Plan{}, refusal, false
			}
			continue
		}
		plan.Placements[k] = t.commit(at, victims, r)
		placed++
	}
	t.spare(plan.Placements)
	t.report(&plan)
	return plan, Refusal{}, true
}

// short is Refusal.ShortMilli: what the least need members ask for, less what is open
// or held by those who may go. None is placed yet.
func (t *attempt) short(need int) int64 {
	var ask []int64
	for k := range t.p.Members {
		ask = append(ask, t.p.Members[k].TotalMilli())
	}
	slices.Sort(ask)
	sum := int64(0)
	for _, milli := range ask[:need] {
		sum += milli
	}
	for i := range t.s.Len() {
		if sum -= int64(t.s.Node(i).OpenMilli); t.s.Node(i).Shares > 1 {
			return 0 // units of two requests may be parts of one GPU
		}
	}
	for n, may := range t.may {
		if may {
			sum -= t.holder(n).Placement.TotalMilli()
		}
	}
	return sum
}

// overlap reports whether two placements have a GPU in common.
func overlap(a, b *cluster.Placement) bool {
	return a.Node == b.Node && slices.ContainsFunc(a.Devices, func(d cluster.Device) bool {
		return slices.ContainsFunc(b.Devices, func(e cluster.Device) bool { return d.GPU == e.GPU })
	})
}

// report fills in who goes.
func (t *attempt) report(plan *Plan) {
	for _, h := range t.trail {
		id := t.ids[h]
		if t.holder(h).Promise {
			plan.Broken = append(plan.Broken, id)
		} else {
			plan.Victims = append(plan.Victims, id)
		}
		plan.Cost = plan.Cost.plus(t.costs[h])
	}
	for _, n := range t.partial {
		if slices.ContainsFunc(plan.Placements, func(at cluster.Placement) bool { return overlap(&at, &t.holder(n).Placement) }) {
			plan.Broken = append(plan.Broken, t.ids[n])
		}
	}
	for _, g := range t.gangs {
		if g.alive == 0 && slices.ContainsFunc(g.members, func(n int) bool { return slices.Contains(t.trail, n) }) {
			plan.Cost.Ends += oneGang
		}
	}
	plan.Awaited = t.awaited(plan.Placements)
	slices.SortFunc(plan.Victims, ID.Compare)
	slices.SortFunc(plan.Broken, ID.Compare)
}
