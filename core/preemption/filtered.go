package preemption

import (
	"slices"

	"berth.dev/berth/core/cluster"
)

// like is equal for members of which none fits where another does not.
type like struct {
	request cluster.Request
	kind    int
}

// filtered places at least need members where the Filters let them go, in their order. One that
// finds no place is tried again after the others, as long as more are placed: a
// worker may ask for the zone of its launcher.
func (t *attempt) filtered(plan *Plan, need int) (refusal Refusal, ok bool) {
	t.p.Filters.Begin()
	left := make([]int, len(t.p.Members))
	for k := range left {
		left[k] = k
		plan.Placements[k] = cluster.Placement{Node: -1, Request: t.p.Members[k]}
	}
	placed := 0
	for before := -1; placed > before; {
		before = placed
		vain, misses := map[like]int{}, []int(nil) // with how many placed members like it found no place
		for _, k := range left {
			r, kind := &t.p.Members[k], t.p.Filters.Kind(k)
			if at, tried := vain[like{*r, kind}]; tried && at == placed {
				misses = append(misses, k)
				continue
			}
			t.member = k
			q := t.queueOf(r) // a placement may have changed the answer for every node
			at, victims, ok := q.cheapest(placed < need)
			if !ok {
				refusal, vain[like{*r, kind}] = q.refusal(), placed
				misses = append(misses, k)
				continue
			}
			plan.Placements[k] = t.commit(at, victims, r)
			t.p.Filters.Place(k, at, t.goneFor(at))
			placed++
		}
		left = misses
	}
	return refusal, placed >= need
}

// goneFor lists the victims so far, with those that a search under way tries, and the holders that
// leave node i by themselves.
func (t *attempt) goneFor(i int) []ID {
	var gone []ID
	for _, n := range t.trail {
		if t.ids[n].Node != i && !t.holder(n).Promise {
			gone = append(gone, t.ids[n])
		}
	}
	return append(gone, t.goneOn(i)...)
}

// goneOn is goneFor, of node i alone.
func (t *attempt) goneOn(i int) []ID {
	var gone []ID
	for n := t.first[i]; n < t.first[i+1]; n++ {
		going := t.gone[n] || t.open != nil && t.open.node == i && !t.stays[n] && slices.Contains(t.open.who, n)
		if going && !t.holder(n).Promise {
			gone = append(gone, t.ids[n])
		}
	}
	return gone
}

// stands reports whether what is placed stands for the Filters with the victims that are left.
func (t *attempt) stands(placed []cluster.Placement) bool {
	if t.p.Filters == nil {
		return true
	}
	var gone []ID
	seen := map[int]bool{-1: true}
	for k := range placed {
		if i := placed[k].Node; !seen[i] {
			seen[i] = true
			gone = append(gone, t.goneOn(i)...)
		}
	}
	for _, n := range t.trail {
		if id := t.ids[n]; !seen[id.Node] && t.gone[n] && !t.holder(n).Promise {
			gone = append(gone, id)
		}
	}
	return t.p.Filters.Stand(placed, gone)
}
