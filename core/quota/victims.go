package quota

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Claim is a workload that asks for room which others have to give. Its Kinds count the same: see
// Book.Alternatives.
type Claim struct {
	*Workload
	Priority int32 // of the least of its pods
	Never    bool  // it evicts no pods
	Now      time.Time
	// Going are pods that are being evicted, though their objects do not say so yet.
	Going map[string]bool
	// Kept are pods that must not be evicted, by ID.
	Kept map[string]bool
	// Budgets are the disruption budgets that a pod counts on, as positions in Allowed:
	// the evictions that each allows now.
	Budgets func(pod string) []int
	Allowed []int
}

// The rules for evicting others to give quota back.
const (
	// young is how long a workload that saves nothing may have run to be evicted before
	// patience is over: what it has done is little.
	young = time.Hour
	// patience is how long a claim waits before a workload goes that is not young and
	// saves nothing, or that has been evicted MostEvictions times.
	patience = time.Hour
)

// Role is what a claim may do to a holder.
type Role uint8

// The roles.
const (
	Stays   Role = iota
	Yields       // it is of the claim's own queue, and of lower priority
	Borrows      // its queue has borrowed what the claim's queue has as nominal quota
	Spared       // the same, but it goes after all others: it has been evicted MostEvictions times
	Leaves       // it ends anyway
)

// kind is the kind of GPUs that the claim is for.
func (c *Claim) kind() Kind {
	if len(c.Kinds) > 0 {
		return c.Kinds[0]
	}
	return Kind{}
}

// RoleOf reports whether a holder may be evicted for a claim, if its queue still borrows. A
// claim takes from other queues what they have borrowed, as far as its own queue, or the
// ancestor of its own that lends to them, stays within its nominal quota; whatever
// the priorities are. later is when it may be, if it is only too early.
//
// A workload that borrows goes at the earliest when it has run for its queue's MinRunTime, and
// one that would lose more than an hour, or that has been evicted MostEvictions times, only after the
// claim has waited for an hour.
func (b *Book) RoleOf(c *Claim, h *Holder) (role Role, later time.Time) {
	mine, ok := b.tree.ask[c.Queue]
	theirs, there := b.tree.ask[h.Queue]
	switch {
	case !ok || !there || h.Workload == c.ID:
		return Stays, later
	case h.Leaving || c.Going[h.ID]:
		return Leaves, later
	case c.Never || c.Kept[h.ID]:
		return Stays, later
	case mine == theirs && h.Priority < c.Priority:
		return Yields, later
	case mine == theirs || !b.entitled(c, mine, theirs):
		return Stays, later
	}
	from := h.Start
	if from.IsZero() {
		from = c.Now
	}
	later = from.Add(b.tree.specs[theirs].MinRunTime)
	spared := b.spared(h, c.Now)
	if spared || c.Now.Sub(from) > young && (h.Checkpoint <= 0 || h.Checkpoint > young) {
		if then := c.Since.Add(patience); c.Since.IsZero() || then.After(later) {
			later = then
			if c.Since.IsZero() {
				later = c.Now.Add(patience)
			}
		}
	}
	if later.After(c.Now) {
		return Stays, later
	}
	if spared {
		return Spared, time.Time{}
	}
	return Borrows, time.Time{}
}

// entitled reports whether the claim of queue mine stays within nominal quota where the
// ways of the two queues to the root part, and theirs borrows there.
func (b *Book) entitled(c *Claim, mine, theirs int) bool {
	if b.tree.root[mine] != b.tree.root[theirs] {
		return false
	}
	a, z := b.part(mine, theirs)
	if a < 0 || z < 0 {
		return false
	}
	if b.overdraws(mine, a, b.needed(c.Workload, c.kind())) {
		return false
	}
	return b.borrowing(theirs, z)
}

// overdraws reports whether an amount more in queue i has the queue itself, or one of its
// ancestors, hold more than its nominal quota.
func (b *Book) overdraws(i, ancestor int, v []int64) bool {
	t, n := b.tree, len(b.tree.resources)
	for r, d := range v {
		if !t.limits[i*n+r] {
			continue
		}
		for at := i; d > 0; at = t.parent[at] {
			p := at*n + r
			if at == ancestor {
				if b.use[p]+d > t.pool[p] {
					return true
				}
				break
			}
			d = max(0, b.use[p]+d-t.kept[p]) - max(0, b.use[p]-t.kept[p])
		}
	}
	return false
}

// needed is what a workload needs at least, of a kind where its own is not known.
func (b *Book) needed(w *Workload, kind Kind) []int64 {
	sum := make([]int64, len(b.tree.resources))
	for k := range w.Pods[:w.need()] {
		b.tree.addTo(sum, w.Pods[k].Pieces, kind, 1)
	}
	return sum
}

// part returns the ancestors of two queues, or the queues themselves, that are siblings;
// -1 where one of the queues is the ancestor of the other.
func (b *Book) part(x, y int) (a, z int) {
	t := b.tree
	above := map[int]int{} // of each ancestor of x, the one below it
	for at, below := x, -1; at >= 0; at, below = t.parent[at], at {
		above[at] = below
	}
	for at, below := y, -1; at >= 0; at, below = t.parent[at], at {
		if a, met := above[at]; met {
			return a, below
		}
	}
	return -1, -1
}

// borrowing reports whether every queue from one up to its ancestor holds more than its
// nominal quota of some resource.
func (b *Book) borrowing(from, to int) bool {
	t, n := b.tree, len(b.tree.resources)
	for r := range n {
		if !t.limits[from*n+r] {
			continue
		}
		for at := from; b.use[at*n+r] > t.pool[at*n+r]; at = t.parent[at] {
			if at == to {
				return true
			}
		}
	}
	return false
}

// group is pods that are evicted together: one that its gang can spare, or all of a gang.
type group struct {
	pods   []*Holder
	whole  bool // a gang ends
	leaves bool // all of it ends anyway
	spared bool // it goes after all others
}

// compare orders groups by who goes first: those that end anyway, those that are not spared, the lowest
// priority, idle ones, those that their gang can spare, those that lose least work, the youngest.
func (g *group) compare(o *group, now time.Time) int {
	return cmp.Or(
		byBool(o.leaves, g.leaves), byBool(g.spared, o.spared), cmp.Compare(g.priority(), o.priority()), byBool(o.idle(), g.idle()), byBool(g.whole, o.whole),
		cmp.Compare(g.lost(now), o.lost(now)), o.pods[0].Start.Compare(g.pods[0].Start), cmp.Compare(g.pods[0].ID, o.pods[0].ID),
	)
}

func byBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func (g *group) idle() bool {
	return !slices.ContainsFunc(g.pods, func(h *Holder) bool { return !h.Idle })
}

func (g *group) parts() (sum int64) {
	for _, h := range g.pods {
		sum += h.parts()
	}
	return sum
}

func (g *group) priority() int32 {
	most := g.pods[0].Priority
	for _, h := range g.pods {
		most = max(most, h.Priority)
	}
	return most
}

// lost is the parts of GPUs times seconds since each pod's start or checkpoint.
func (g *group) lost(now time.Time) float64 {
	sum := 0.0
	for _, h := range g.pods {
		sum += h.Lost(now)
	}
	return sum
}

// Lost is the work, in GPU-seconds, that a pod may have to do again if it ends now.
func (h *Holder) Lost(now time.Time) float64 {
	if h.Start.IsZero() {
		return 0
	}
	age := max(0, now.Sub(h.Start))
	if h.Checkpoint > 0 {
		age = min(age, h.Checkpoint)
	}
	return float64(h.parts()) / Whole * age.Seconds()
}

// parts are the parts of GPUs that a pod holds.
func (h *Holder) parts() (sum int64) {
	for _, p := range h.Pieces {
		sum += p.Parts
	}
	return sum
}

// Victims returns pods whose end leaves the claim the quota that it asks for, once those in gone
// have ended too. Pods that end anyway are taken first, and no pod is taken that could be spared; in
// a tree of several levels there are rare exceptions. ok is false where no pods can give it; later is then
// when some more may go, if they are only too young now.
//
// No pod of another queue goes whose queue would not borrow without it: what a queue has within its
// nominal quota is never taken. Once the claim holds what it asks for, less is borrowed than before
// (Borrowed, level by level), so evictions end. Workloads that have been evicted MostEvictions times go only
// where no others can give the quota.
func (b *Book) Victims(c *Claim, gone []string) (victims []string, later time.Time, ok bool) {
	s := &sift{c: c, spares: true}
	victims, later, ok = s.find(b, gone)
	if !ok && s.spared {
		s = &sift{c: c}
		victims, later, ok = s.find(b, gone)
	}
	return victims, later, ok
}

// find is Victims.
func (s *sift) find(b *Book, gone []string) (victims []string, later time.Time, ok bool) {
	c := s.c
	s.b, s.allowed = b.without(c, nil), slices.Clone(c.Allowed)
	s.before = s.b.Borrowed()
	for _, pod := range gone {
		if h := s.b.holders[pod]; h != nil {
			s.remove(&group{pods: []*Holder{h}, leaves: h.Leaving || c.Going[pod]})
		}
	}
	if s.enough() {
		return nil, later, true
	}
	var taken []*group
	for more := true; more; {
		var groups []*group
		more = false
		groups, later = s.groups() // what goes may entitle the claim to more
		for _, g := range groups {
			if !s.may(g) {
				continue
			}
			s.remove(g)
			taken, more = append(taken, g), true
			if s.enough() {
				return s.spare(taken), time.Time{}, true
			}
		}
	}
	return nil, later, false
}

// without is a copy of the Book in which pods have ended, and what is kept for the claim is
// not.
func (b *Book) without(c *Claim, gone []string) *Book {
	out := &Book{tree: b.tree, use: slices.Clone(b.use), users: make(map[userAt][]int64, len(b.users)), holders: maps.Clone(b.holders), works: map[string]map[string]bool{},
		evicted: b.evicted, owned: b.owned}
	for key, sum := range b.users {
		out.users[key] = slices.Clone(sum)
	}
	for pod := range b.works[c.ID] {
		k := b.kept[pod]
		out.count(k.queue, k.user, k.pieces, k.kind, -1)
	}
	for _, pod := range gone {
		out.drop(pod)
	}
	return out
}

// drop takes a pod out of the count.
func (b *Book) drop(pod string) {
	if h := b.holders[pod]; h != nil {
		delete(b.holders, pod)
		b.count(h.Queue, h.User, h.Pieces, Kind{}, -1)
	}
}

// sift is one search for victims.
type sift struct {
	b        *Book // without those that go
	c        *Claim
	before   []int64 // what was borrowed
	reclaims int     // of those that go, groups of other queues
	allowed  []int   // evictions that budgets still allow
	spares   bool    // those who are Spared stay
	spared   bool    // some did
}

// enough reports whether the claim fits, and less is borrowed then if others give quota back.
func (s *sift) enough() bool {
	verdict := s.b.try(s.c.Workload)
	if verdict.Cause != None {
		return false
	}
	if s.reclaims == 0 {
		return true
	}
	v, i := s.b.needed(s.c.Workload, verdict.CountedAs(s.c.Workload)), s.b.tree.ask[s.c.Queue]
	s.b.countVector(i, s.c.User, v, 1)
	after := s.b.Borrowed()
	s.b.countVector(i, s.c.User, v, -1)
	return slices.Compare(after, s.before) < 0
}

// Borrowed returns how much queues hold and have kept beyond their nominal quotas, of all
// resources together: the sum over the roots, over the queues below them, and so on. It is
// the potential that each eviction for another queue lowers, compared from the root down.
func (b *Book) Borrowed() []int64 {
	var out []int64
	n, depth := len(b.tree.resources), make([]int, len(b.tree.specs))
	for i := range depth {
		if parent := b.tree.parent[i]; parent >= 0 {
			depth[i] = depth[parent] + 1
		}
		for len(out) <= depth[i] {
			out = append(out, 0)
		}
		for p := i * n; p < (i+1)*n; p++ {
			if b.tree.limits[p] {
				out[depth[i]] += max(0, b.use[p]-b.tree.pool[p])
			}
		}
	}
	return out
}

// groups lists who may go, the first to go first.
func (s *sift) groups() (out []*group, later time.Time) {
	gangs := map[string][]*Holder{}
	for _, h := range s.b.holders {
		if role, _ := s.b.RoleOf(s.c, h); role == Leaves {
			out = append(out, &group{pods: []*Holder{h}, leaves: true})
		} else {
			gangs[h.Workload] = append(gangs[h.Workload], h)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(gangs)) {
		pods := gangs[name]
		slices.SortFunc(pods, func(x, y *Holder) int { return cmp.Or(y.Start.Compare(x.Start), cmp.Compare(y.ID, x.ID)) })
		stay, spared := false, false
		for _, h := range pods {
			role, when := s.b.RoleOf(s.c, h)
			spared = spared || role == Spared
			s.spared = s.spared || spared
			if role == Stays {
				stay, later = true, Sooner(later, when)
			}
		}
		if stay || spared && s.spares {
			continue
		}
		least := pods[0].Least
		if least <= 0 || least > len(pods) {
			least = len(pods)
		}
		spare := len(pods) - least
		for _, h := range pods[:spare] {
			out = append(out, &group{pods: []*Holder{h}, spared: spared})
		}
		out = append(out, &group{pods: pods[spare:], whole: len(pods) > 1, spared: spared})
	}
	slices.SortFunc(out, func(x, y *group) int { return x.compare(y, s.c.Now) })
	return out, later
}

// may reports whether a group may still go: its queue borrows, or it gives way to a higher
// priority of its own queue. The last pods of a gang go after those it can spare.
func (s *sift) may(g *group) bool {
	left := slices.Clone(s.allowed)
	for _, h := range g.pods {
		if s.b.holders[h.ID] == nil {
			return false
		}
		for _, k := range s.budgets(g, h) {
			if left[k]--; left[k] < 0 {
				return false
			}
		}
	}
	role, _ := s.b.RoleOf(s.c, g.pods[0])
	return role != Stays
}

// budgets are those that the eviction of a pod of a group is counted on.
func (s *sift) budgets(g *group, h *Holder) []int {
	if g.leaves || s.c.Budgets == nil {
		return nil
	}
	return s.c.Budgets(h.ID)
}

func (s *sift) remove(g *group) { s.move(g, -1) }

func (s *sift) putBack(g *group) { s.move(g, 1) }

// move takes a group out of the count (sign -1) or puts it back.
func (s *sift) move(g *group, sign int) {
	if g.pods[0].Queue != s.c.Queue && g.pods[0].Queue != "" && !g.leaves {
		s.reclaims -= sign
	}
	for _, h := range g.pods {
		if sign < 0 {
			delete(s.b.holders, h.ID)
		} else {
			s.b.holders[h.ID] = h
		}
		s.b.count(h.Queue, h.User, h.Pieces, Kind{}, int64(sign))
		for _, k := range s.budgets(g, h) {
			s.allowed[k] += sign
		}
	}
}

// spare puts back those groups that were taken without which there is enough, the
// last taken first, and returns the pods of the others.
func (s *sift) spare(taken []*group) (pods []string) {
	for n := len(taken) + 1; len(taken) < n; {
		n = len(taken)
		for k := n - 1; k >= 0; k-- {
			g, rest := taken[k], slices.Delete(slices.Clone(taken), k, k+1)
			s.putBack(g)
			if s.enough() && !s.followed(taken[k+1:], g) && s.right(rest) {
				taken = rest
				continue
			}
			s.remove(g)
		}
	}
	for _, g := range taken {
		for _, h := range g.pods {
			pods = append(pods, h.ID)
		}
	}
	slices.Sort(pods)
	return pods
}

// right reports whether groups, which are gone, may all go one after the other: the small
// ones first, so their queues borrow for as long as possible.
func (s *sift) right(groups []*group) bool {
	for _, g := range groups {
		s.putBack(g)
	}
	left := slices.Clone(groups)
	slices.SortStableFunc(left, func(a, b *group) int { return cmp.Compare(a.parts(), b.parts()) })
	for more := true; more; {
		n := len(left)
		left = slices.DeleteFunc(left, func(g *group) bool {
			goes := s.may(g)
			if goes {
				s.remove(g)
			}
			return goes
		})
		more = len(left) < n
	}
	for _, g := range left {
		s.remove(g)
	}
	return len(left) == 0
}

// followed reports whether the rest of a spare pod's gang goes: then it goes too.
func (s *sift) followed(later []*group, g *group) bool {
	return slices.ContainsFunc(later, func(o *group) bool { return o.whole && o.pods[0].Workload == g.pods[0].Workload })
}
