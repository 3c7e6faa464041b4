package gang

import (
	"cmp"
	"slices"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
)

// fill places at least need members on the nodes of a domain, and as many more
// as fit, and leaves them assumed; or it gives nil, and nothing has changed.
func (t *planning) fill(domain []int32, need int) (*Plan, error) {
	m := t.mark()
	t.enter(domain)
	plan := t.empty()
	first, err := t.each(plan, need, func(i int) (bool, error) {
		node := t.choose(domain, i)
		if node < 0 {
			return false, nil
		}
		t.taken[apartNode{t.g.Members[i].Apart, node}] = true
		return true, t.put(plan, i, node, nil)
	})
	switch {
	case err != nil:
		t.rollBack(m)
		return nil, err
	case plan.Count >= need:
		t.keep(m)
		return plan, nil
	case t.best == nil || plan.Count > t.best.Fit:
		t.best = &Refusal{Fit: plan.Count, Member: first}
		t.best.Nodes, t.best.Filtered = t.reasons(first)
	}
	t.rollBack(m)
	return nil, nil
}

// each has try place every member, in order, until fewer than need can be. One that
// the Filters refuse is tried again after the others, as long as more are placed: a
// worker may ask for the launcher's zone, where there is none yet. first is the first
// member for which there is no place in the end; -1 is none.
func (t *planning) each(plan *Plan, need int, try func(i int) (bool, error)) (first int, err error) {
	left := t.order
	for {
		before, vain, misses := plan.Count, map[like]int{}, []int(nil)
		for k, i := range left {
			if plan.Count == t.limit {
				return append(misses, -1)[0], nil
			}
			if at, tried := vain[t.like(i)]; !tried || at < plan.Count {
				switch placed, err := try(i); {
				case err != nil:
					return -1, err
				case placed:
					continue
				}
				vain[t.like(i)] = plan.Count
			}
			misses = append(misses, i)
			if t.filters == nil && plan.Count+len(left)-k-1 < need {
				return misses[0], nil
			}
		}
		switch {
		case len(misses) == 0:
			return -1, nil
		case plan.Count == before || t.filters == nil:
			return misses[0], nil
		}
		left = misses
	}
}

// like is equal for members of which none fits where another does not.
type like struct {
	shape, kind, avoids int
	apart               string
}

// like tells member i from those unlike it.
func (t *planning) like(i int) like {
	l := like{shape: t.shape[i], avoids: -1, apart: t.g.Members[i].Apart}
	if len(t.g.Members[i].Avoid) > 0 {
		l.avoids = i
	}
	if t.filters != nil {
		l.kind = t.filters.Kind(i)
	}
	return l
}

// empty is a plan that places nobody.
func (t *planning) empty() *Plan {
	plan := &Plan{Placed: make([]cluster.Placement, len(t.g.Members))}
	for i := range plan.Placed {
		plan.Placed[i] = cluster.Placement{Node: -1, Request: t.g.Members[i].Request}
	}
	return plan
}

// enter begins with a domain: no score holds any more.
func (t *planning) enter(domain []int32) {
	for i := range t.inside {
		t.inside[i] = false
	}
	for _, i := range domain {
		t.inside[i] = true
	}
	for k := range t.shapes {
		t.shapes[k].scored = false
	}
	t.taken = map[apartNode]bool{}
}

// choose gives the node for member i, or -1. A member with GPUs gets one of the
// domain: first those that the gang is on already, then as the policy likes. One
// without GPUs gets one of the domain if it can, else any. The Filters are asked
// about the best node, then about the next, until they refuse none.
func (t *planning) choose(domain []int32, i int) int {
	for t.asked++; ; {
		node := t.preferred(domain, i)
		if node < 0 || t.refuses(i, node) == "" {
			return node
		}
		t.refusedAt[node] = t.asked
	}
}

// preferred is the node for member i as far as the Snapshot tells, without those
// that choose was refused.
func (t *planning) preferred(domain []int32, i int) int {
	h, avoid, apart := &t.shapes[t.shape[i]], t.g.Members[i].Avoid, t.g.Members[i].Apart
	first := t.used
	if h.request.GPUs == 0 {
		domain, first = t.all, t.inside
	}
	if !h.scored {
		for _, n := range domain {
			t.score(h, int(n))
		}
		h.scored = true
	}
	node := -1
	fits, score, some := h.fits, h.score, len(avoid) > 0 || apart != "" || t.filters != nil // out of the loop: it is most of a plan
	for _, n := range domain {
		n := int(n)
		if !fits[n] || some && (t.refusedAt[n] == t.asked || slices.Contains(avoid, n) || apart != "" && t.taken[apartNode{apart, n}]) {
			continue
		}
		if node < 0 || first[n] && !first[node] || first[n] == first[node] && (score[n] > score[node] || score[n] == score[node] && t.better(n, score[n], node, score[node])) {
			node = n
		}
	}
	return node
}

// better says whether node i with score a is to be taken before node j with b:
// for its score, else for having less open, else for coming first.
func (t *planning) better(i int, a placement.Score, j int, b placement.Score) bool {
	if a != b {
		return a > b
	}
	if m, n := t.s.Node(i).OpenMilli, t.s.Node(j).OpenMilli; m != n {
		return m < n
	}
	return i < j
}

// scoreOn is placement.ScoreOn, without the nodes that are avoided.
func (t *planning) scoreOn(i int, r *cluster.Request) (placement.Score, bool) {
	score, fits := placement.ScoreOn(t.p, i, r, t.g.Stay)
	return score, fits && !(t.avoidShares && t.s.SharesLast(i, r))
}

// score brings up to date whether h fits node n, and how well.
func (t *planning) score(h *shape, n int) {
	h.score[n], h.fits[n] = t.scoreOn(n, &h.request)
}

// put assumes member i of a plan on a node, with devices or, where they are nil,
// those that the policy chooses.
func (t *planning) put(plan *Plan, i, node int, devices []cluster.Device) error {
	p := &plan.Placed[i]
	if p.Node, p.Devices = node, devices; devices == nil {
		*p = placement.On(t.p, node, &p.Request)
	}
	p.Ends = t.g.Stay.Ends
	if err := t.s.Assume(p); err != nil {
		return err
	}
	plan.Count++
	plan.Order = append(plan.Order, i)
	if t.filters != nil {
		t.filters.Place(i, node)
	}
	t.used[node] = t.used[node] || p.Request.GPUs > 0
	for k := range t.shapes {
		if h := &t.shapes[k]; h.scored && h.fits[node] {
			t.score(h, node)
		}
	}
	return nil
}

// together places every member with GPUs on one node, as one request whose
// devices are dealt out, and those without where they fit. For level Clique
// the devices are of one NVLink clique.
func (t *planning) together(l Level) (*Plan, error) {
	sum := *t.sum
	sum.OneClique = l == Clique
	scores := map[int]placement.Score{}
	var nodes []int
	for i := range t.all {
		if !t.near(l, i) {
			continue
		}
		if score, fits := t.scoreOn(i, &sum); fits {
			nodes, scores[i] = append(nodes, i), score
		}
	}
	slices.SortFunc(nodes, func(i, j int) int {
		if t.better(i, scores[i], j, scores[j]) {
			return -1
		}
		return 1
	})
	for _, node := range nodes[:min(t.most, len(nodes))] {
		if plan, err := t.dealt(&sum, node); plan != nil || err != nil {
			return plan, err
		}
	}
	return nil, nil
}

// dealt places every member with GPUs on one node that sum fits, or gives nil.
func (t *planning) dealt(sum *cluster.Request, node int) (*Plan, error) {
	m := t.mark()
	t.enter(t.all[node : node+1])
	devices := placement.On(t.p, node, sum).Devices
	plan := t.empty()
	first, err := t.each(plan, len(t.order), func(i int) (bool, error) {
		r := &plan.Placed[i].Request
		at, hand := node, devices[:r.GPUs:r.GPUs]
		if r.GPUs == 0 {
			at, hand = t.choose(nil, i), nil
		}
		if at < 0 || placement.Fit(t.s, at, r) != placement.Fits || r.GPUs > 0 && t.refuses(i, at) != "" {
			return false, nil
		}
		devices = devices[r.GPUs:]
		return true, t.put(plan, i, at, hand)
	})
	if err != nil || first >= 0 {
		t.rollBack(m)
		return nil, err
	}
	t.keep(m)
	return plan, nil
}

// reasons counts nodes by why member i has no room there now, and those with room by
// why the Filters refuse it. Both are nil for member -1.
func (t *planning) reasons(i int) ([]placement.Count, []FilterCount) {
	if i < 0 {
		return nil, nil
	}
	var room []int
	r := &t.g.Members[i].Request
	counts := map[placement.Count]int{}
	for n := range t.all {
		if why := placement.Fit(t.s, n, r); why == placement.Excluded {
			counts[placement.Count{Reason: why, Why: t.s.Verdict(r.Class, n).Reason}]++
		} else if why != placement.Fits {
			counts[placement.Count{Reason: why}]++
		} else {
			room = append(room, n)
		}
	}
	var out []placement.Count
	for c, n := range counts {
		c.Nodes = n
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b placement.Count) int {
		return cmp.Or(cmp.Compare(rank(a.Reason), rank(b.Reason)), cmp.Compare(a.Why, b.Why))
	})
	return out, t.filtered(i, room)
}

// rank is the place of a reason among those that Fit asks for.
func rank(r placement.Reason) int {
	return slices.Index([]placement.Reason{
		placement.Excluded, placement.TooManyPods, placement.NotEnoughCPU, placement.NotEnoughMemory, placement.WrongProduct,
		placement.NotEnoughGPUs, placement.NotEnoughGPUMemory, placement.NoMIGPlacement, placement.NotOneClique,
	}, r)
}

// short is Refusal.ShortMilli: what the least need members ask for, less what
// is open.
func (t *planning) short(need int) int64 {
	var ask []int64
	for i := range t.g.Members {
		r := &t.g.Members[i].Request
		if r.Units && t.shared {
			return 0
		}
		ask = append(ask, r.TotalMilli())
	}
	slices.Sort(ask)
	sum := int64(0)
	for _, milli := range ask[:need] {
		sum += milli
	}
	for i := range t.all {
		sum -= int64(t.s.Node(i).OpenMilli)
	}
	return max(0, sum)
}
