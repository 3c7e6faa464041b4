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
	m, used := t.s.Mark(), slices.Clone(t.used)
	t.enter(domain)
	plan, first, left := t.empty(), -1, len(t.order) // first that does not fit; not tried yet
	for _, i := range t.order {
		if plan.Count == t.limit {
			break
		}
		left--
		node := t.choose(domain, i)
		if node >= 0 {
			if err := t.put(&plan.Placed[i], node, nil); err != nil {
				t.s.RollBack(m)
				return nil, err
			}
			t.taken[apartNode{t.g.Members[i].Apart, node}] = true
			plan.Count++
			continue
		}
		if first < 0 {
			first = i
		}
		if plan.Count+left < need {
			break
		}
	}
	if plan.Count >= need {
		t.s.Keep(m)
		return plan, nil
	}
	if t.best == nil || plan.Count > t.best.Fit {
		t.best = &Refusal{Fit: plan.Count, Member: first, Nodes: t.reasons(first)}
	}
	t.s.RollBack(m)
	t.used = used
	return nil, nil
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
// without GPUs gets one of the domain if it can, else any.
func (t *planning) choose(domain []int32, i int) int {
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
	for _, n := range domain {
		n := int(n)
		if !h.fits[n] || len(avoid) > 0 && slices.Contains(avoid, n) || apart != "" && t.taken[apartNode{apart, n}] {
			continue
		}
		if node < 0 || first[n] && !first[node] || first[n] == first[node] && t.better(n, h.score[n], node, h.score[node]) {
			node = n
		}
	}
	return node
}

// better says whether node i with score a is to be taken before node j with b:
// for its score, else for having less open, else for coming first.
func (t *planning) better(i int, a placement.Score, j int, b placement.Score) bool {
	return cmp.Or(cmp.Compare(b, a), cmp.Compare(t.s.Node(i).OpenMilli, t.s.Node(j).OpenMilli), cmp.Compare(i, j)) < 0
}

// scoreOn is placement.ScoreOn, without the nodes that are avoided.
func (t *planning) scoreOn(i int, r *cluster.Request) (placement.Score, bool) {
	score, fits := placement.ScoreOn(t.p, i, r)
	return score, fits && !(t.avoidShares && t.s.SharesLast(i, r))
}

// score brings up to date whether h fits node n, and how well.
func (t *planning) score(h *shape, n int) {
	h.score[n], h.fits[n] = t.scoreOn(n, &h.request)
}

// put assumes a member on a node, with devices or, where they are nil, those
// that the policy chooses.
func (t *planning) put(p *cluster.Placement, node int, devices []cluster.Device) error {
	if p.Node, p.Devices = node, devices; devices == nil {
		*p = placement.On(t.p, node, &p.Request)
	}
	if err := t.s.Assume(p); err != nil {
		return err
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
	node, best := -1, placement.Score(0)
	for i := range t.all {
		if !t.near(l, i) {
			continue
		}
		if score, fits := t.scoreOn(i, &sum); fits && (node < 0 || t.better(i, score, node, best)) {
			node, best = i, score
		}
	}
	if node < 0 {
		return nil, nil
	}
	m, used := t.s.Mark(), slices.Clone(t.used)
	t.enter(t.all[node : node+1])
	devices := placement.On(t.p, node, &sum).Devices
	plan := t.empty()
	for _, i := range t.order {
		p := &plan.Placed[i]
		at, hand := node, devices[:p.Request.GPUs:p.Request.GPUs]
		devices = devices[p.Request.GPUs:]
		if p.Request.GPUs == 0 {
			at, hand = t.choose(nil, i), nil
		}
		if at < 0 || placement.Fit(t.s, at, &p.Request) != placement.Fits {
			t.s.RollBack(m)
			t.used = used
			return nil, nil
		}
		if err := t.put(p, at, hand); err != nil {
			t.s.RollBack(m)
			return nil, err
		}
		plan.Count++
	}
	t.s.Keep(m)
	return plan, nil
}

// reasons counts nodes by why member i has no room there now. It is nil for
// member -1.
func (t *planning) reasons(i int) []placement.Count {
	if i < 0 {
		return nil
	}
	r := &t.g.Members[i].Request
	counts := map[placement.Count]int{}
	for n := range t.all {
		if why := placement.Fit(t.s, n, r); why == placement.Excluded {
			counts[placement.Count{Reason: why, Why: t.s.Verdict(r.Class, n).Reason}]++
		} else if why != placement.Fits {
			counts[placement.Count{Reason: why}]++
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
	return out
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
