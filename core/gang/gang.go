// Package gang decides about members that are placed together or not at all. A
// Planner decides where they go: all of them, or at least MinCount, or none, and
// as near to one another as there is room. A Machine decides when: which member
// leads, when a gang is tried, tried again and let go, and how long a place is
// kept. Neither evicts; which of two gangs comes first is decided by package queue.
package gang

import (
	"fmt"
	"slices"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
)

// Level is how far apart the members of a gang may be. A lower Level is nearer.
type Level uint8

// The levels, nearest first.
const (
	Clique  Level = iota // one NVLink clique of one node
	Node                 // one node
	Fabric               // nodes that share one NVLink fabric
	Rack                 // nodes of one rack
	Zone                 // nodes of one zone
	Cluster              // any nodes
	levels
)

var levelNames = [levels]string{"clique", "node", "fabric", "rack", "zone", "cluster"}

// String gives the level's name, such as "rack".
func (l Level) String() string {
	if l >= levels {
		return fmt.Sprintf("level %d", uint8(l))
	}
	return levelNames[l]
}

// ParseLevel gives the level of a name. The error lists the names.
func ParseLevel(name string) (Level, error) {
	for l, n := range levelNames {
		if n == name {
			return Level(l), nil
		}
	}
	return 0, fmt.Errorf("topology level %q: it is one of %v", name, levelNames)
}

// Member is what one member of a gang asks for.
type Member struct {
	Request cluster.Request
	Avoid   []int // nodes that it may not go to, as something else has refused it there
	// Apart, where it is not empty, keeps members with the same Apart on different
	// nodes.
	Apart string
}

// Gang is members that are placed together or not at all.
type Gang struct {
	Name    string
	Members []Member
	// MinCount is how many of Members must be placed for any to be; 0, and more
	// than there are, is all. Those beyond it are placed as far as they fit.
	MinCount int
	// Most is how many of Members may be placed; 0 is all. It is not below MinCount.
	Most int
	// Near are the nodes of members that are placed already: the others must
	// share their domain at the level that is chosen.
	Near []int
	// Within is the farthest that members with GPUs may be apart. The zero
	// value is a Clique: say Cluster where any nodes will do.
	Within Level
	// Stay is how long the members stay, as they declare: until the last of them has ended.
	Stay placement.Stay
}

// Plan is a decision for a whole gang.
type Plan struct {
	// Placed has an entry for each member, in the order of Gang.Members. Those
	// left out, beyond MinCount, have Node -1.
	Placed []cluster.Placement
	// Order has the members placed, in the order in which Filters agreed to each: in
	// another order they may be refused.
	Order []int
	Count int   // members placed
	Level Level // of the domain that holds all members with GPUs
}

// Refusal says why a gang was not placed.
type Refusal struct {
	Need int // members that had to be placed
	// Fit is how many members were placed, in the domain where most were, before
	// there was room for no more.
	Fit int
	// Member is the first for which there was no room beside those that fitted,
	// and Nodes counts all nodes by why it had none there, in the order of
	// Index.Reasons. Nodes with room that are outside of the domain, or to be
	// avoided, are not in it.
	Member int
	Nodes  []placement.Count
	// Filtered counts the nodes with room for Member that Filters refused, by reason.
	Filtered []FilterCount
	// ShortMilli is how many milli-GPUs must be given back at the least before
	// the gang can fit; 0 where that is not known.
	ShortMilli int64
	// Apart: all members fit together, but not within Gang.Within. Then Member
	// and Nodes tell of the domain where most fitted, and are -1 and nil where no
	// domain was worth trying.
	Apart bool
}

// Planner places gangs on the Snapshot of a Placer.
type Planner struct {
	Placer   placement.Placer // its Best is not asked: a domain is no node's own
	Topology *Topology        // of the Snapshot's nodes; nil: nothing is known of racks and zones
	Filters  Filters          // what else is asked of nodes; nil: nothing
	// Domains is how many domains of each level are tried; 0 is 16.
	Domains int
}

// Plan places g and assumes its placements on the Snapshot, or refuses it and
// leaves the Snapshot as it was. Members without GPUs may be outside of the
// domain, where that has no room for them.
//
// Of the domains that hold every member it takes one of the nearest level; where
// none does, one of the nearest level that holds MinCount, with as many members
// as fit there. Of one level, the domain with the least room comes first. Which
// node of a domain a member gets is decided by the Placer's Policy, among those first
// that the gang is on already. Equal arguments give equal plans.
//
// The error is of a Policy that chose what is not free: a bug.
func (p *Planner) Plan(g *Gang) (*Plan, *Refusal, error) {
	if len(g.Members) == 0 {
		return &Plan{}, nil, nil
	}
	t := newPlanning(p, g)
	need := g.MinCount
	if need <= 0 || need > len(g.Members) {
		need = len(g.Members)
	}
	if t.limit = len(g.Members); g.Most > 0 {
		t.limit = min(t.limit, max(g.Most, need))
	}
	plan, err := t.nearest(t.limit)
	if plan == nil && err == nil && need < t.limit {
		plan, err = t.nearest(need)
	}
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("plan gang %s: %w", g.Name, err)
	case plan != nil:
		return plan, nil, nil
	}
	if err := t.explain(); err != nil {
		return nil, nil, fmt.Errorf("plan gang %s: %w", g.Name, err)
	}
	t.best.Need, t.best.ShortMilli = need, t.short(need)
	return nil, t.best, nil
}

// explain completes the refusal where domains were not tried, because counting
// was enough to rule them out, or where nodes beyond one domain would do.
func (t *planning) explain() error {
	tried := t.best
	if tried != nil && t.g.Within >= Cluster {
		return nil
	}
	t.best = nil
	if _, err := t.fill(t.all, len(t.g.Members)+1); err != nil {
		return err
	}
	if t.best.Member >= 0 {
		return nil
	}
	if tried == nil {
		tried = &Refusal{Member: -1}
	}
	tried.Apart, t.best = true, tried
	return nil
}

// nearest places at least need members at the nearest level that holds them, or
// gives nil. Shares for members that ask for several GPUs are looked at where the
// gang finds no place without.
func (t *planning) nearest(need int) (*Plan, error) {
	if t.shared && slices.ContainsFunc(t.shapes, several) {
		t.setAvoidShares(true)
		plan, err := t.within(need)
		if t.setAvoidShares(false); plan != nil || err != nil {
			return plan, err
		}
		t.best = nil
	}
	return t.within(need)
}

// several says whether members ask for several GPUs that shares do not serve as.
func several(h shape) bool {
	return h.request.Units && h.request.GPUs > 1 && !h.request.SharesDo
}

// setAvoidShares makes nodes that are a last resort for a member not fit for it, or fit again.
func (t *planning) setAvoidShares(shares bool) {
	t.avoidShares = shares
	for k := range t.shapes {
		t.shapes[k].scored = false
	}
}

// within is nearest on the nodes that fit.
func (t *planning) within(need int) (*Plan, error) {
	for l := range min(t.g.Within, Cluster) + 1 {
		plan, err := t.level(l, need)
		if plan != nil {
			plan.Level = l
		}
		if plan != nil || err != nil {
			return plan, err
		}
	}
	return nil, nil
}

// level places at least need members in one domain of level l, or gives nil.
func (t *planning) level(l Level, need int) (*Plan, error) {
	switch {
	case l == Clique && t.sum != nil && need == len(t.g.Members) && len(t.g.Near) == 0,
		l == Node && t.sum != nil && need == len(t.g.Members) && !(t.sum.Units && t.shared):
		return t.together(l)
	case l == Clique:
		return nil, nil
	}
	tried := 0
	for _, d := range t.domains(l) {
		if t.room(d) < need {
			continue
		}
		if tried++; tried > t.most {
			break
		}
		if plan, err := t.fill(d, need); plan != nil || err != nil {
			return plan, err
		}
	}
	return nil, nil
}
