package gang

import (
	"cmp"
	"slices"

	"berth.dev/berth/core/cluster"
)

// Filters answers what a Snapshot has no words for: whether a node takes a member for
// its ports, for affinity between pods, for spreading, for volumes, and whatever else
// a scheduler is configured to ask. The answers depend on who is placed already, so a
// Planner tells them of every placement, and takes placements back in reverse.
//
// Members are numbered as in Gang.Members, nodes as in the Snapshot.
type Filters interface {
	// Kind returns a number that is equal for members that are always answered alike.
	Kind(member int) int
	// Refuses returns why a member may not go to a node beside those that are
	// placed; "" is that it may. Equal reasons have equal texts, so they can be
	// counted.
	Refuses(member, node int) (why string)
	// Place notes that a member goes to a node, which does not refuse it.
	Place(member, node int)
	// Placed returns how many placements are noted, and KeepFirst forgets those
	// after the first n.
	Placed() int
	KeepFirst(n int)
}

// FilterCount counts the nodes that Filters refuse a member for one reason, although
// they have free what it asks for.
type FilterCount struct {
	Why   string
	Nodes int
}

// mark is a moment of a planning: of its Snapshot and of its Filters.
type mark struct {
	snapshot cluster.Mark
	placed   int
	used     []bool
}

// mark returns this moment. It ends with rollBack or keep, the last mark first.
func (t *planning) mark() mark {
	m := mark{snapshot: t.s.Mark(), used: slices.Clone(t.used)}
	if t.filters != nil {
		m.placed = t.filters.Placed()
	}
	return m
}

// rollBack takes back what was placed since m.
func (t *planning) rollBack(m mark) {
	t.s.RollBack(m.snapshot)
	t.used = m.used
	if t.filters != nil {
		t.filters.KeepFirst(m.placed)
	}
}

// keep keeps what was placed since m.
func (t *planning) keep(m mark) { t.s.Keep(m.snapshot) }

// refuses returns why the Filters refuse member i on a node; "" is that they do not.
func (t *planning) refuses(i, node int) string {
	if t.filters == nil {
		return ""
	}
	return t.filters.Refuses(i, node)
}

// filtered counts the nodes with room for member i that the Filters refuse, by
// reason.
func (t *planning) filtered(i int, room []int) []FilterCount {
	var out []FilterCount
	for _, n := range room {
		why := t.refuses(i, n)
		if why == "" {
			continue
		}
		k := slices.IndexFunc(out, func(f FilterCount) bool { return f.Why == why })
		if k < 0 {
			k, out = len(out), append(out, FilterCount{Why: why})
		}
		out[k].Nodes++
	}
	slices.SortFunc(out, func(a, b FilterCount) int { return cmp.Compare(a.Why, b.Why) })
	return out
}
