package placement

import (
	"cmp"
	"slices"

	"berth.dev/berth/core/cluster"
)

// commonShare is the part of all arrivals whose classes Fragmentation looks at,
// the most common first: the tail costs time and says little.
const commonShare = 0.95

// Fragmentation is the part of the free milli-GPUs of s that a request drawn
// from mix cannot use, on average, from 0 (all of it can be used) to 1. It is 0
// where nothing is free, and where mix has no request for a GPU.
//
// For one class of requests a GPU's free milli-GPUs are lost if the node has no
// place for a request of the class (Fit), and also if the GPU by itself has too
// little for one of its devices. GPUs that are unhealthy are not free. Classes
// count by weight; those that ask for no GPU, and the rarest that are 5% of the
// weight together, do not count.
//
// It looks at every GPU for every class that counts: some milliseconds at 5,000
// nodes, so it is for reports and not for decisions.
//
// Source: the fragmentation measure of Weng et al., "Beware of Fragmentation",
// USENIX ATC '23, section 3, divided by what is free, and without its classes
// that need no GPU (which find all of it lost).
func Fragmentation(s *cluster.Snapshot, mix *Mix) float64 {
	classes, total := common(mix)
	free, lost := 0.0, 0.0
	for i := range s.Len() {
		all := 0.0
		for _, g := range s.GPUs(i) {
			if g.Healthy {
				all += float64(g.FreeMilli)
			}
		}
		if all == 0 {
			continue
		}
		free += all
		for k := range classes {
			lost += classes[k].Weight / total * (all - useful(s, i, &classes[k].Request))
		}
	}
	if free == 0 {
		return 0
	}
	return max(0, min(1, lost/free)) // sums of parts may be off in the last digit
}

// common returns the classes that make up commonShare of the requests for GPUs,
// and the sum of their weights.
func common(mix *Mix) (classes []Class, total float64) {
	all := 0.0
	for _, c := range mix.Classes() {
		if c.Request.GPUs > 0 {
			classes, all = append(classes, c), all+c.Weight
		}
	}
	slices.SortStableFunc(classes, func(a, b Class) int { return cmp.Compare(b.Weight, a.Weight) })
	for i := range classes {
		if total >= commonShare*all {
			return classes[:i], total
		}
		total += classes[i].Weight
	}
	return classes, total
}

// useful is the free milli-GPUs of node i on GPUs that have enough for one
// device of r, and 0 where r does not fit the node.
func useful(s *cluster.Snapshot, i int, r *cluster.Request) float64 {
	if Fit(s, i, r) != Fits {
		return 0
	}
	sum := 0.0
	for j, g := range s.GPUs(i) {
		if g.Healthy && hasOne(s, i, j, r) {
			sum += float64(g.FreeMilli)
		}
	}
	return sum
}

// hasOne reports whether GPU j of node i has enough for one device of r.
func hasOne(s *cluster.Snapshot, i, j int, r *cluster.Request) bool {
	if !r.IsMIG() {
		return roomOn(s, i, j, r) == roomBoth
	}
	g := &s.GPUs(i)[j]
	if !s.HasMIG(i) || !r.Products.Has(g.Product) {
		return false
	}
	p := s.ProfileNumber(g.Product, r.Profile)
	return p != 0 && migRoom(s, i, j, p) > 0
}
