package quota

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

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
	s.b, s.allowed = b.without(c), slices.Clone(c.Allowed)
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

// without is a copy of the Book in which nothing is kept for the claim.
func (b *Book) without(c *Claim) *Book {
	out := b.counts()
	for pod := range b.works[c.ID] {
		k := b.kept[pod]
		out.count(k.queue, k.user, k.pieces, k.kind, -1)
	}
	return out
}

// counts is a copy of what the Book counts, in which no workload waits and what is kept has no owner.
func (b *Book) counts() *Book {
	out := &Book{
		tree: b.tree, use: slices.Clone(b.use), held: slices.Clone(b.held), users: make(map[userAt][]int64, len(b.users)), holders: maps.Clone(b.holders), works: map[string]map[string]bool{},
		evicted: b.evicted, owned: b.owned,
	}
	for key, sum := range b.users {
		out.users[key] = slices.Clone(sum)
	}
	return out
}

// Copy returns a Book that counts the same and goes on apart, for what would be: Try, Keep, Release, and Gone. In it no workload waits.
func (b *Book) Copy() *Book {
	out := b.counts()
	out.kept, out.owed = maps.Clone(b.kept), maps.Clone(b.owed)
	out.owned, out.decayed, out.ranks = maps.Clone(b.owned), maps.Clone(b.decayed), make(map[string]map[int32]int, len(b.ranks))
	for queue, of := range b.ranks {
		out.ranks[queue] = maps.Clone(of)
	}
	for workload, pods := range b.works {
		out.works[workload] = maps.Clone(pods)
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
		slices.SortFunc(pods, func(x, y *Holder) int {
			if x.Leads != y.Leads {
				if x.Leads {
					return 1 // it is spared last
				}
				return -1
			}
			return cmp.Or(y.Start.Compare(x.Start), cmp.Compare(y.ID, x.ID))
		})
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
