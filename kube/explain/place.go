package explain

import (
	"slices"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// Room returns how many of the pods that a suspended object asks for fit on nodes now, at most so many,
// in the order in which it asks for them: those of a gang within one domain of its topology level. If all fit
// that it needs, or all those asked about, they stay placed: what is asked next has room beside them.
//
// It makes the checks of Fits that do not depend on other pods. The level clique counts as
// node.
func (t *Cluster) Room(s *queues.Suspended, most int) int {
	sets, asks := make([]quota.Set, len(s.Sets)), make([]candidates, len(s.Sets))
	level := gang.Cluster
	for k := range s.Sets {
		sets[k], asks[k] = s.Sets[k].Set, t.candidates(s.Sets[k].Pod, t.ties)
		if g, err := request.GangOf(s.Sets[k].Pod); err == nil && g != nil {
			level = min(level, max(g.Within, gang.Node))
		}
	}
	_, need := quota.Order(sets)
	need = min(need, most) // the rest of those that have begun to come
	best, at := 0, -1
	domains := t.domains(level)
	for d, domain := range domains {
		mark := t.snapshot.Mark()
		count := t.room(sets, within(s, asks, domain), need, most)
		if t.snapshot.RollBack(mark); count > best {
			best, at = count, d
		}
		if best == most {
			break
		}
	}
	if best >= need && at >= 0 {
		t.room(sets, within(s, asks, domains[at]), need, most)
	}
	return best
}

// domains returns the nodes of each domain of a level, as the snapshot numbers them.
func (t *Cluster) domains(l gang.Level) [][]int32 {
	places := make([]gang.Place, t.snapshot.Len())
	for _, n := range t.all {
		if i, ok := t.snapshot.Find(n.Name); ok {
			places[i] = request.Place(n)
		}
	}
	return gang.NewTopology(places).Domains(l, len(places))
}

// within leaves of the nodes that each set of pods could use those of a domain. Pods without GPUs may be
// outside of it.
func within(s *queues.Suspended, asks []candidates, domain []int32) []candidates {
	out := slices.Clone(asks)
	for k := range out {
		if len(request.Of(s.Sets[k].Pod)) == 0 {
			continue
		}
		out[k] = candidates{}
		for _, node := range domain {
			if at, is := slices.BinarySearch(asks[k].nodes, int(node)); is {
				out[k].nodes, out[k].asks = append(out[k].nodes, int(node)), append(out[k].asks, asks[k].asks[at])
			}
		}
	}
	return out
}

// room places pods on the nodes that each set may use, those that are needed first, until one does not
// fit, and returns how many.
func (t *Cluster) room(sets []quota.Set, asks []candidates, need, most int) (count int) {
	best, placed := placement.NewBestFit(placement.Setup{Cluster: t.snapshot}), make([]int, len(sets))
	for _, n := range []int{min(need, most), most} {
		for k, want := range quota.Counts(sets, n) {
			for ; placed[k] < want; placed[k]++ {
				if !asks[k].take(t.snapshot, best) {
					return count
				}
				count++
			}
		}
	}
	return count
}
