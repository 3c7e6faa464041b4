package preemption

import (
	"slices"

	"berth.dev/berth/core/cluster"
)

// commit lets picks go, and places r on node i.
func (t *attempt) commit(i int, picks []int, r *cluster.Request) cluster.Placement {
	mark := len(t.trail)
	for _, n := range picks {
		if !t.gone[n] {
			t.pick(n)
		}
	}
	for _, n := range t.trail[mark:] {
		h := t.holder(n)
		t.let(h)
		t.touched = append(t.touched, t.ids[n].Node)
		if h.Gang != "" || len(h.Budgets) > 0 {
			t.epoch++
		}
	}
	t.touched = append(t.touched, i)
	return t.take(i, r)
}

// let gives back what h holds.
func (t *attempt) let(h *Holder) {
	if err := t.s.Release(&h.Placement); err != nil {
		panic(err) // it was assumed: a bug
	}
}

// spare takes back every victim without which what is placed stands too: the
// dearest first, and of a gang that goes as a whole, all it needs or none.
func (t *attempt) spare(placed []cluster.Placement) {
	if len(placed) < 2 {
		return // a search of one node leaves none to spare
	}
	order := slices.Clone(t.trail)
	slices.SortFunc(order, func(a, b int) int {
		if c := t.costs[b].Compare(t.costs[a]); c != 0 {
			return c
		}
		return a - b
	})
	for len(order) > 0 {
		group := order[:1]
		name := t.holder(order[0]).Gang
		if g := t.gangs[name]; g != nil {
			group = slices.DeleteFunc(slices.Clone(order), func(n int) bool { return t.holder(n).Gang != name })
		}
		t.spareGroup(group, t.gangs[name], placed)
		order = slices.DeleteFunc(order, func(n int) bool { return slices.Contains(group, n) })
	}
}

// spareGroup takes back those of group, one holder or the victims of gang g, for
// which there is room beside what is placed, and which the Filters do not mind.
func (t *attempt) spareGroup(group []int, g *gang, placed []cluster.Placement) {
	m := t.s.Mark()
	var back []int
	for _, n := range group {
		if t.back(t.holder(n)) {
			back = append(back, n)
			t.gone[n] = false
		}
	}
	if !t.stands(placed) {
		for _, n := range back {
			t.gone[n] = true
		}
		t.s.RollBack(m)
		return
	}
	ends := func(n int) bool { return t.gone[n] && t.holder(n).Leads }
	if g != nil && len(back) < len(group) && (g.min <= 0 || g.alive+len(back) < g.min || slices.ContainsFunc(group, ends)) {
		for _, n := range back {
			t.gone[n] = true
		}
		t.s.RollBack(m)
		return
	}
	t.s.Keep(m)
	for _, n := range back {
		t.trail = slices.DeleteFunc(t.trail, func(v int) bool { return v == n })
		if g != nil {
			g.alive++
		}
		for _, b := range t.holder(n).Budgets {
			t.budget[b]++
		}
	}
}

// awaited lists who leaves by himself and whose room a placement needs. Promises
// to others, who may need it too, are not asked.
func (t *attempt) awaited(placed []cluster.Placement) []ID {
	m := t.s.Mark()
	defer t.s.RollBack(m)
	var out []ID
	seen := map[int]bool{-1: true}
	for k := range placed {
		i := placed[k].Node
		if seen[i] {
			continue
		}
		seen[i] = true
		for n := t.first[i]; n < t.first[i+1]; n++ {
			if h := t.holder(n); h.Promise && !t.gone[n] {
				t.let(h)
			}
		}
		for n := t.first[i]; n < t.first[i+1]; n++ {
			if h := t.holder(n); h.Leaving && !h.Promise && t.gone[n] && !t.back(h) {
				out = append(out, t.ids[n])
			}
		}
	}
	slices.SortFunc(out, ID.Compare)
	return out
}
