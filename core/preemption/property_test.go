package preemption_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/preemption"
)

// all lists the holders of c.
func all(c *preemption.Cluster) []preemption.ID {
	var out []preemption.ID
	for i := range c.Holders {
		for k := range c.Holders[i] {
			out = append(out, preemption.ID{Node: i, Holder: k})
		}
	}
	return out
}

func at(c *preemption.Cluster, id preemption.ID) *preemption.Holder {
	return &c.Holders[id.Node][id.Holder]
}

// allowed reports whether exactly gone may be evicted for p.
func allowed(c *preemption.Cluster, p *preemption.Preemptor, gone []preemption.ID) bool {
	budget := slices.Clone(c.Budgets)
	evicted := map[string]int{}
	for _, id := range gone {
		h := at(c, id)
		if h.Fixed || h.Leaving || h.Priority >= p.Priority {
			return false
		}
		for _, b := range h.Budgets {
			if budget[b]--; budget[b] < 0 {
				return false
			}
		}
		evicted[h.Gang]++
	}
	for name, n := range evicted {
		alive := 0
		for _, id := range all(c) {
			if h := at(c, id); h.Gang == name && !h.Leaving {
				alive++
			}
		}
		if name != "" && n < alive && (c.MinCount[name] <= 0 || alive-n < c.MinCount[name]) {
			return false
		}
	}
	return true
}

// cost is Cost, worked out anew.
func cost(c *preemption.Cluster, gone []preemption.ID) preemption.Cost {
	var out preemption.Cost
	evicted := map[string]int{}
	for _, id := range gone {
		h := at(c, id)
		if h.Gang != "" {
			evicted[h.Gang]++
		}
		if out.Ends += 1 << 40; h.Promise {
			continue
		}
		saves := h.Saves
		for _, o := range all(c) {
			if o := at(c, o); h.Gang != "" && o.Gang == h.Gang && o.Saves.Last.After(saves.Last) {
				saves.Last = o.Saves.Last
			}
		}
		if !saves.Any() {
			out.Ends++
		}
		out.Highest = max(out.Highest, int64(h.Priority)+1<<31+1)
		out.Sum += int64(h.Priority) + 1<<31
		out.Lost += h.Placement.TotalMilli() * int64(saves.Lost(h.Start, now).Seconds())
	}
	for _, id := range all(c) {
		if h := at(c, id); h.Gang != "" && !h.Leaving {
			evicted[h.Gang]--
		}
	}
	for _, id := range gone {
		if gang := at(c, id).Gang; evicted[gang] == 0 && gang != "" {
			out.Ends, evicted[gang] = out.Ends+1<<20, -1
		}
	}
	return out
}

// twin is the slow obvious search: every set of holders.
func twin(c *preemption.Cluster, p *preemption.Preemptor) (preemption.Cost, bool) {
	if best, found := twinOn(c, p, false); found {
		return best, true
	}
	return twinOn(c, p, true)
}

// twinOn is twin with shares for several GPUs, or without.
func twinOn(c *preemption.Cluster, p *preemption.Preemptor, shares bool) (best preemption.Cost, found bool) {
	holders := all(c)
	for set := range 1 << len(holders) { // at most 10
		var gone []preemption.ID
		for k, id := range holders {
			if set&(1<<k) != 0 {
				gone = append(gone, id)
			}
		}
		if !allowed(c, p, gone) {
			continue
		}
		if what := cost(c, gone); !found || what.Compare(best) < 0 {
			s := settle(c, gone...)
			for i := range s.Len() {
				if placement.Fit(s, i, &p.Members[0]) == placement.Fits && (shares || !s.SharesLast(i, &p.Members[0])) && allows(c, p, i, gone) {
					best, found = what, true
				}
			}
		}
	}
	return best, found
}

// allows asks p.Allows about node i without gone and those who leave.
func allows(c *preemption.Cluster, p *preemption.Preemptor, i int, gone []preemption.ID) bool {
	if p.Allows == nil {
		return true
	}
	for k := range c.Holders[i] {
		if id := (preemption.ID{Node: i, Holder: k}); at(c, id).Leaving {
			gone = append(slices.Clone(gone), id)
		}
	}
	return p.Allows(i, gone)
}

// TestPlansMeetWhatElseIsAsked has some holders stand in the way of the preemptor by
// what the Snapshot does not know, alone or one of two. Each plan is as cheap as the
// cheapest of all sets of victims that removes what is in the way.
func TestPlansMeetWhatElseIsAsked(t *testing.T) {
	found, blocked, refused := 0, 0, 0
	for seed := range uint64(6000) {
		r := rand.New(rand.NewPCG(seed, 9))
		c, p := random(t, r, 1)
		holders := all(c)
		var clauses [][2]preemption.ID // one of the two must be gone
		for range r.IntN(3) {
			if len(holders) > 0 {
				clauses = append(clauses, [2]preemption.ID{holders[r.IntN(len(holders))], holders[r.IntN(len(holders))]})
			}
		}
		p.Allows = func(node int, gone []preemption.ID) bool {
			for _, clause := range clauses {
				in := slices.ContainsFunc(clause[:], func(id preemption.ID) bool { return id.Node == node && !at(c, id).Promise })
				met := slices.ContainsFunc(clause[:], func(id preemption.ID) bool { return id.Node == node && !at(c, id).Promise && slices.Contains(gone, id) })
				if in && !met {
					return false
				}
			}
			return true
		}
		want, ok := twin(c, p)
		plan, why, got := preemption.Find(c, p, now)
		switch {
		case got != ok:
			t.Fatalf("seed %d: found %v (%+v), the twin %v", seed, got, why, ok)
		case !ok:
			refused++
			continue
		case plan.Cost != want:
			t.Fatalf("seed %d: cost %+v, the twin %+v", seed, plan.Cost, want)
		}
		stands(t, c, p, &plan)
		if node := plan.Placements[0].Node; !allows(c, p, node, plan.Victims) {
			t.Fatalf("seed %d: victims %v do not clear node %d of %v", seed, plan.Victims, node, clauses)
		}
		found++
		if p.Allows = nil; len(plan.Victims) > 0 {
			if cheaper, _ := twin(c, p); cheaper.Compare(want) < 0 {
				blocked++
			}
		}
	}
	if found < 1000 || blocked < 100 || refused < 100 {
		t.Errorf("%d found, %d of them dearer for what else is asked, %d refused: too few to tell", found, blocked, refused)
	}
}

// stands fails the test unless plan can be carried out.
func stands(t *testing.T, c *preemption.Cluster, p *preemption.Preemptor, plan *preemption.Plan) {
	t.Helper()
	gone := slices.Concat(plan.Victims, plan.Broken)
	if !allowed(c, p, gone) {
		t.Fatalf("victims %v, %v are not allowed", plan.Victims, plan.Broken)
	}
	if got := cost(c, gone); got != plan.Cost {
		t.Fatalf("cost %+v, want %+v", plan.Cost, got)
	}
	s := settle(c, gone...)
	for i := range plan.Placements {
		if at := plan.Placements[i]; at.Node >= 0 {
			if err := s.Assume(&at); err != nil {
				t.Fatalf("member %d: %v", i, err)
			}
		}
	}
	// Who is not awaited may come back, if nobody else has been promised his room.
	promises := slices.DeleteFunc(all(c), func(id preemption.ID) bool { return !at(c, id).Promise })
	s = settle(c, slices.Concat(plan.Victims, promises)...)
	for i := range plan.Placements {
		if at := plan.Placements[i]; at.Node >= 0 && s.Assume(&at) != nil {
			t.Fatal("not reached: the plan stands")
		}
	}
	for _, id := range all(c) {
		if h := at(c, id); h.Leaving && slices.ContainsFunc(plan.Placements, func(p cluster.Placement) bool { return p.Node == id.Node }) {
			if room := back(s, &h.Placement); room == slices.Contains(plan.Awaited, id) {
				t.Fatalf("holder %v leaves: awaited %v, and room with it is %v", id, plan.Awaited, room)
			}
		}
	}
}

func TestPlansAreAsCheapAsTheCheapestOfAllSets(t *testing.T) {
	found, evicted := 0, 0
	for seed := range uint64(10000) {
		c, p := random(t, rand.New(rand.NewPCG(seed, 1)), 1)
		before := c.Snapshot.Clone()
		want, ok := twin(c, p)
		plan, why, got := preemption.Find(c, p, now)
		if got != ok {
			t.Fatalf("seed %d: found %v (%+v), the twin %v", seed, got, why, ok)
		}
		if !before.Equal(c.Snapshot) {
			t.Fatalf("seed %d: the Snapshot has changed", seed)
		}
		if !ok {
			if n := why.Closed + why.NoVictims + why.TooSmall + why.Protected; n != why.Nodes || n != c.Snapshot.Len() {
				t.Fatalf("seed %d: %+v of %d nodes", seed, why, c.Snapshot.Len())
			}
			continue
		}
		stands(t, c, p, &plan)
		if plan.Cost != want {
			t.Fatalf("seed %d: cost %+v, the twin %+v", seed, plan.Cost, want)
		}
		if found++; len(plan.Victims) > 0 {
			evicted++
		}
	}
	if found < 1000 || evicted < 300 {
		t.Errorf("%d found, %d with victims: too few to tell", found, evicted)
	}
}

func TestPlansForGangsSpareNobodyInVain(t *testing.T) {
	found, whole := 0, 0
	for seed := range uint64(10000) {
		r := rand.New(rand.NewPCG(seed, 2))
		c, p := random(t, r, 2+r.IntN(3))
		p.MinCount = r.IntN(len(p.Members) + 1)
		plan, _, ok := preemption.Find(c, p, now)
		if !ok {
			continue
		}
		stands(t, c, p, &plan)
		placed := 0
		for i := range plan.Placements {
			if plan.Placements[i].Node >= 0 {
				placed++
			}
		}
		need := p.MinCount
		if need == 0 {
			need = len(p.Members)
		}
		if placed < need {
			t.Fatalf("seed %d: %d members placed, %d needed", seed, placed, need)
		}
		gone := slices.Concat(plan.Victims, plan.Broken)
		for k := range gone { // no victim could have stayed where the members are
			fewer := slices.Delete(slices.Clone(gone), k, k+1)
			s := settle(c, gone...)
			for i := range plan.Placements {
				if at := plan.Placements[i]; at.Node >= 0 && s.Assume(&at) != nil {
					t.Fatal("not reached: the plan stands")
				}
			}
			if allowed(c, p, fewer) && back(s, &at(c, gone[k]).Placement) {
				t.Fatalf("seed %d: victim %v of %v could have stayed", seed, gone[k], gone)
			}
		}
		if found++; len(plan.Victims) > 0 {
			whole++
		}
	}
	if found < 500 || whole < 100 {
		t.Errorf("%d found, %d with victims: too few to tell", found, whole)
	}
}

// TestEveryEvictionIsForHigherPriority lets pods come and preempt, and the
// evicted come again, until nothing moves: how many pods of each priority run,
// read from the highest down, only grows, so that it must come to an end.
func TestEveryEvictionIsForHigherPriority(t *testing.T) {
	evictions := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		c, _ := random(t, r, 1)
		c.Budgets = nil
		for i := range c.Holders {
			c.Holders[i] = slices.DeleteFunc(c.Holders[i], func(h preemption.Holder) bool {
				gone := h.Leaving || h.Promise || h.Fixed
				if gone && !h.Promise {
					if err := c.Snapshot.Release(&h.Placement); err != nil {
						t.Fatal(err)
					}
				}
				return gone
			})
			for k := range c.Holders[i] {
				c.Holders[i][k].Gang, c.Holders[i][k].Budgets = "", nil
			}
		}
		type waiting struct {
			q        cluster.Request
			priority int32
		}
		var queue []waiting
		for range 6 {
			queue = append(queue, waiting{randomRequest(r), int32(r.IntN(5))})
		}
		last := running(c)
		for step := 0; len(queue) > 0; step++ {
			if step > 500 {
				t.Fatalf("seed %d: no end", seed)
			}
			w := queue[0]
			queue = queue[1:]
			plan, _, ok := preemption.Find(c, &preemption.Preemptor{Members: []cluster.Request{w.q}, Priority: w.priority}, now)
			if !ok {
				continue // it waits; only an arrival that frees room could change that
			}
			for _, id := range slices.Backward(plan.Victims) {
				h := *at(c, id)
				if err := c.Snapshot.Release(&h.Placement); err != nil {
					t.Fatal(err)
				}
				c.Holders[id.Node] = slices.Delete(c.Holders[id.Node], id.Holder, id.Holder+1)
				queue = append(queue, waiting{h.Placement.Request, h.Priority})
				evictions++
			}
			if err := c.Snapshot.Assume(&plan.Placements[0]); err != nil {
				t.Fatal(err)
			}
			i := plan.Placements[0].Node
			c.Holders[i] = append(c.Holders[i], preemption.Holder{Placement: plan.Placements[0], Priority: w.priority, Start: now})
			if now := running(c); slices.Compare(now, last) <= 0 {
				t.Fatalf("seed %d: %v after %v", seed, now, last)
			} else {
				last = now
			}
		}
	}
	if evictions < 100 {
		t.Errorf("%d evictions: too few to tell", evictions)
	}
}

// running counts the holders of each priority, the highest first.
func running(c *preemption.Cluster) []int {
	out := make([]int, 8)
	for _, id := range all(c) {
		out[7-at(c, id).Priority]++
	}
	return out
}
