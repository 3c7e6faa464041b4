package quota_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/test/soak"
)

// world is a Book in random use, with what it is checked against.
type world struct {
	*testing.T
	chance  *rand.Rand
	seed    uint64
	b       *quota.Book
	leaves  []string
	works   map[string]*quota.Workload // those that wait or hold
	now     time.Time
	serial  int
	evicted int
	wasted  int
	ends    map[string][]int // how many pods an owner had at each of its evictions to return quota
	back    []string         // the owners, the last to be evicted last
	again   int              // pods that went though they are spared
	passed  int              // claims that found some who are spared
	behind  int              // those that are behind a workload that is late
	refused []refused        // the last
	lacked  int              // answers of StillLacks
}

// refused is a workload that was refused.
type refused struct {
	*quota.Workload
	no quota.Verdict
}

// lacking checks that Try refuses what StillLacks says it does.
func (w *world) lacking() {
	for _, r := range w.refused {
		if !w.b.StillLacks(r.Workload, &r.no) {
			continue
		}
		w.lacked++
		if v := w.b.Try(r.Workload); v.Cause == quota.None {
			w.Fatalf("seed %d: %s still lacks what it was refused for with %+v, and may have it", w.seed, r.ID, r.no)
		}
	}
}

// trees is queues of up to three levels, with limits here and there, whose children have no
// more than their parents.
func (w *world) trees() (specs []quota.Spec) {
	limit := func(n int64) int64 {
		if w.chance.IntN(3) > 0 {
			return quota.Unlimited
		}
		return w.chance.Int64N(n+1) * whole
	}
	left := map[string]int64{}
	state := func(s *quota.Spec, nominal int64) {
		s.Quotas = []quota.Quota{{Resource: quota.GPUs, Nominal: nominal * whole, Borrowing: limit(8), Lending: limit(nominal)}}
		left[s.Name] = nominal
	}
	for k := range 1 + w.chance.IntN(2) {
		root := quota.Spec{Name: fmt.Sprintf("org%d", k)}
		state(&root, 8+w.chance.Int64N(24))
		specs = append(specs, root)
		for j := range 1 + w.chance.IntN(3) {
			team := quota.Spec{Name: fmt.Sprintf("team%d%d", k, j), Parent: root.Name, Weight: 500 * (1 + w.chance.Int64N(3)), FairUsers: w.chance.IntN(2) == 0}
			if w.chance.IntN(5) > 0 {
				n := w.chance.Int64N(left[root.Name] + 1)
				left[root.Name] -= n
				state(&team, n)
			}
			if w.chance.IntN(4) == 0 {
				team.PerUser = []quota.Limit{{Resource: quota.GPUs, Most: (1 + w.chance.Int64N(6)) * whole}}
			}
			specs = append(specs, team)
			for i := range w.chance.IntN(3) {
				sub := quota.Spec{Name: fmt.Sprintf("sub%d%d%d", k, j, i), Parent: team.Name}
				if n := left[team.Name]; n > 0 && w.chance.IntN(4) > 0 {
					n = w.chance.Int64N(n + 1)
					left[team.Name] -= n
					state(&sub, n)
				}
				specs = append(specs, sub)
			}
		}
	}
	return specs
}

func (w *world) ask() *quota.Workload {
	w.serial++
	id := fmt.Sprintf("w%d", w.serial)
	out := &quota.Workload{ID: id, Queue: w.leaves[w.chance.IntN(len(w.leaves))], User: w.user(), Since: w.now}
	out.Ticket.UID, out.Ticket.Created, out.Ticket.Priority = id, w.now, int32(w.chance.IntN(3))
	if w.serial%4 == 0 { // a priority in the line apart from that of its pods
		out.Line = new(int32(w.serial / 4 % 3))
	}
	pods, each := 1, int64(1)<<w.chance.IntN(4)
	if w.chance.IntN(3) == 0 {
		pods, each = 1+w.chance.IntN(4), 1
		out.Need = 1 + w.chance.IntN(pods)
	}
	for k := range pods {
		p := quota.Pod{ID: fmt.Sprintf("%s-%d", id, k), Pieces: []quota.Piece{{Devices: each, Parts: each * whole}}}
		if k > 0 && w.chance.IntN(3) == 0 { // a member that another user has made
			p.User = w.user()
		}
		out.Pods = append(out.Pods, p)
	}
	return out
}

func (w *world) user() string { return []string{"", "ann", "bob"}[w.chance.IntN(3)] }

// owner is the object that makes the pods of a workload again: one whose pod was evicted, or a new one. One
// in four has been evicted before.
func (w *world) owner(a *quota.Workload) string {
	if w.ends == nil {
		w.ends = map[string][]int{}
	}
	owner := a.ID
	if n := len(w.back); n > 0 && w.chance.IntN(2) > 0 {
		owner, w.back = w.back[n-1], w.back[:n-1]
	}
	if len(w.ends[owner]) == 0 && w.chance.IntN(4) == 0 {
		for range 1 + w.chance.IntN(3) {
			w.b.Evict(owner, quota.Reclaim{From: a.Queue}, 1, w.now)
			w.ends[owner] = append(w.ends[owner], 1)
		}
	}
	return owner
}

// spared lists the pods whose owner has been evicted three times for each pod that it has or had, counted
// from what has happened.
func (w *world) spared() map[string]bool {
	pods, out := map[string]int{}, map[string]bool{}
	for _, h := range w.b.Holders() {
		pods[h.Owner]++
	}
	for _, h := range w.b.Holders() {
		ends := w.ends[h.Owner]
		if len(ends) > 0 && len(ends) >= 3*max(pods[h.Owner], slices.Max(ends)) {
			out[h.ID] = true
		}
	}
	return out
}

// sparing checks that no pod that is spared goes for a claim which has not waited for an hour, or for
// which others would be enough.
func (w *world) sparing(c *quota.Claim, victims []string) {
	spared := w.spared()
	for _, h := range w.b.Holders() {
		if h.Queue == c.Queue {
			delete(spared, h.ID) // priorities decide
		}
	}
	if len(spared) == 0 {
		return
	}
	w.passed++
	goes := slices.IndexFunc(victims, func(id string) bool { return spared[id] })
	if goes < 0 {
		return
	}
	w.again++
	if c.Now.Sub(c.Since) < time.Hour {
		w.Fatalf("seed %d: %s was evicted three times, and goes for a claim that has not waited", w.seed, victims[goes])
	}
	without := *c
	without.Kept = spared
	if others, _, ok := w.b.Victims(&without, nil); ok {
		w.Fatalf("seed %d: %s was evicted three times, and goes though %v would be enough", w.seed, victims[goes], others)
	}
}

// start has pods of a workload hold what they ask for.
func (w *world) start(a *quota.Workload, count int) {
	owner := w.owner(a)
	for _, p := range a.Pods[:count] {
		w.b.Hold(&quota.Holder{ID: p.ID, Workload: a.ID, Queue: a.Queue, User: cmp.Or(p.User, a.User), Pieces: p.Pieces, Priority: a.Ticket.Priority, Start: w.now, Least: a.Need, Idle: w.chance.IntN(5) == 0, Owner: owner})
	}
	w.b.Release(a.ID)
	w.works[a.ID] = a
}

func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.chance.IntN(600)) * time.Second)
	w.b.SetNow(w.now)
	holders := w.b.Holders()
	switch n := w.chance.IntN(10); {
	case n < 6:
		a := w.ask()
		v := w.b.Try(a)
		if v.Cause != quota.None {
			w.refused = append(w.refused, refused{a, v})
			w.refused = w.refused[max(0, len(w.refused)-20):]
		}
		switch {
		case v.Cause == quota.None && w.chance.IntN(8) > 0:
			w.start(a, v.Count)
		case v.Cause == quota.Behind:
			w.b.Wait(a)
			w.behind++
		case v.Cause != quota.None && v.Cause != quota.Never:
			w.reclaim(a, v)
		}
	case len(holders) > 0:
		w.b.Gone(holders[w.chance.IntN(len(holders))].ID)
	}
	w.next()
	w.lacking()
}

// next compares Next with its slow twin, and starts who is called.
func (w *world) next() {
	want := w.b.SlowNext()
	var got []string
	for _, a := range w.b.Next(time.Time{}) {
		got = append(got, a.ID)
		v := w.b.Try(&a)
		if v.Cause != quota.None {
			w.Fatalf("seed %d: %s is called and may not go on: %+v", w.seed, a.ID, v)
		}
		w.start(&a, v.Count)
	}
	if !slices.Equal(got, want) {
		w.Fatalf("seed %d: Next calls %v, and looking at all %v", w.seed, got, want)
	}
}

// reclaim has a workload that was refused take back what others borrow, else wait.
func (w *world) reclaim(a *quota.Workload, no quota.Verdict) {
	claim := &quota.Claim{Workload: a, Priority: a.Ticket.Priority, Now: w.now.Add(2 * time.Hour)}
	claim.Since = w.now
	if w.chance.IntN(3) == 0 {
		claim.Since = claim.Now
	}
	within := w.b.Entitled(a) && no.Cause == quota.Used && claim.Since.Before(claim.Now)
	before := w.b.Borrowed()
	takes := slices.ContainsFunc(w.b.Holders(), func(h quota.Holder) bool {
		role, later := w.b.RoleOf(claim, &h)
		return role == quota.Borrows || role == quota.Spared || !later.IsZero()
	})
	if takes && !w.b.Takes(claim) {
		w.Fatalf("seed %d: %+v may take from others, and Takes reports that it may not", w.seed, a)
	}
	victims, _, ok := w.b.Victims(claim, nil)
	if affords := w.b.Affords(claim); affords != (ok && len(victims) == 0) {
		w.Fatalf("seed %d: %+v is given %v (%v), and Affords reports %v", w.seed, a, victims, ok, affords)
	}
	switch {
	case !ok && within:
		w.Fatalf("seed %d: %+v asks for its own nominal quota and cannot have it back: %+v", w.seed, a, no)
	case !ok:
		w.b.Wait(a)
		return
	}
	for k, id := range victims {
		rest := slices.Delete(slices.Clone(victims), k, k+1)
		if w.enough(claim, rest) && w.b.MayGo(claim, rest) && !w.bound(victims, id) {
			w.wasted++
		}
	}
	w.evicted += len(victims)
	w.sparing(claim, victims)
	reclaimed := w.evict(claim, victims)
	w.b.Promise(a, a.Pods[:max(1, a.Need)])
	v := w.b.Try(a)
	if v.Cause != quota.None {
		w.Fatalf("seed %d: %v are evicted, and there is not enough: %+v", w.seed, victims, v)
	}
	w.start(a, max(1, a.Need))
	if after := w.b.Borrowed(); reclaimed && slices.Compare(after, before) >= 0 {
		w.Fatalf("seed %d: an eviction does not lower what is borrowed: %d, then %d", w.seed, before, after)
	}
}

// evict ends victims, and reports whether some were of another queue.
func (w *world) evict(c *quota.Claim, victims []string) (reclaimed bool) {
	if !w.b.MayGo(c, victims) {
		w.Fatalf("seed %d: %v are evicted and have to stay", w.seed, victims)
	}
	holders := w.b.Holders()
	holders = slices.DeleteFunc(holders, func(h quota.Holder) bool { return !slices.Contains(victims, h.ID) })
	for _, h := range holders {
		if h.Queue == c.Queue {
			continue
		}
		owner, pods := w.b.OwnerOf(h.ID)
		w.b.Evict(owner, quota.Reclaim{From: h.Queue, By: c.Queue}, pods, w.now)
		w.ends[h.Owner] = append(w.ends[h.Owner], pods)
		reclaimed = true
		if !slices.Contains(w.back, h.Owner) {
			w.back = append(w.back, h.Owner)
		}
	}
	for _, h := range holders {
		w.b.Gone(h.ID)
	}
	return reclaimed
}

// enough reports whether a claim fits once pods have ended.
func (w *world) enough(c *quota.Claim, gone []string) bool {
	left, _, ok := w.b.Victims(c, gone)
	return ok && len(left) == 0
}

// bound reports whether a victim goes because the rest of its gang does.
func (w *world) bound(victims []string, id string) bool {
	name := map[string]string{}
	for _, h := range w.b.Holders() {
		name[h.ID] = h.Workload
	}
	return slices.ContainsFunc(victims, func(o string) bool { return o != id && name[o] == name[id] })
}

// overdrawn returns a root below which pods hold more than its nominal quota, counted from
// what the pods hold; "" is none.
func overdrawn(specs []quota.Spec, b *quota.Book) string {
	held := map[string]int64{}
	for _, h := range b.Holders() {
		path := b.Tree().Path(h.Queue)
		for _, p := range h.Pieces {
			held[path[len(path)-1]] += p.Parts
		}
	}
	for _, s := range specs {
		if s.Parent == "" && held[s.Name] > s.Quotas[0].Nominal {
			return s.Name
		}
	}
	return ""
}

// overUser returns a queue in which pods of one user hold more than a user may, counted from
// what the pods hold; "" is none.
func overUser(specs []quota.Spec, b *quota.Book) string {
	for _, s := range specs {
		held := map[string]int64{}
		for _, h := range b.Holders() {
			if slices.Contains(b.Tree().Path(h.Queue), s.Name) {
				for _, p := range h.Pieces {
					held[cmp.Or(h.User, quota.Unknown)] += p.Parts
				}
			}
		}
		for _, most := range s.PerUser {
			for _, sum := range held {
				if sum > most.Most {
					return s.Name
				}
			}
		}
	}
	return ""
}

func TestRandomUse(t *testing.T) {
	evicted, wasted, passed, again, behind, lacked := 0, 0, 0, 0, 0, 0
	for seed := range uint64(soak.Pick(60, 2000)) {
		w := &world{T: t, seed: seed, chance: rand.New(rand.NewPCG(seed, 18)), works: map[string]*quota.Workload{}, now: epoch}
		specs := w.trees()
		w.b = quota.NewBook(quota.NewTree(specs))
		if p := w.b.Tree().Problems(); len(p) > 0 {
			t.Fatalf("seed %d: %v", seed, p)
		}
		w.leaves = w.b.Tree().Names()
		for k := range 500 {
			w.step()
			if at := w.b.OverLimit(); at != "" {
				t.Fatalf("seed %d, step %d: queue %s holds more than it may", seed, k, at)
			}
			if at := overdrawn(specs, w.b); at != "" {
				t.Fatalf("seed %d, step %d: pods below %s hold more than its nominal quota", seed, k, at)
			}
			if at := overUser(specs, w.b); at != "" {
				t.Fatalf("seed %d, step %d: a user holds more in queue %s than a user may", seed, k, at)
			}
			if k%50 == 0 {
				w.apart()
				if !w.b.Recount() {
					t.Fatalf("seed %d, step %d: the sums are not what is held", seed, k)
				}
				w.b.SetTree(quota.NewTree(specs))
			}
		}
		evicted, wasted, passed, again, behind, lacked = evicted+w.evicted, wasted+w.wasted, passed+w.passed, again+w.again, behind+w.behind, lacked+w.lacked
	}
	t.Logf("%d pods were evicted; %d claims met workloads that are spared, and took %d of them", evicted, passed, again)
	if passed < 100 || again < 10 {
		t.Errorf("%d claims met workloads that are spared, and took %d of them: the test shows little", passed, again)
	}
	if behind < 100 {
		t.Errorf("%d workloads came behind one that is late: the test shows little", behind)
	}
	if lacked < 1000 {
		t.Errorf("%d times a workload still lacked what it was refused for: the test shows little", lacked)
	}
	if wasted*1000 > evicted {
		t.Errorf("of %d pods that were evicted, %d could have been spared", evicted, wasted)
	}
	if evicted < 100 {
		t.Errorf("only %d pods were evicted: the test shows little", evicted)
	}
}

// apart has a copy of the Book go on, and checks that it counts right and that the Book is as it was.
func (w *world) apart() {
	ask := w.ask()
	before, c := w.b.Try(ask), w.b.Copy()
	if v := c.Try(ask); before.Cause != quota.Behind && !reflect.DeepEqual(v, before) { // the copy has no lines
		w.Fatalf("seed %d: the copy says %+v, and the Book %+v", w.seed, v, before)
	}
	for _, h := range c.Holders() {
		if w.chance.IntN(2) == 0 {
			c.Gone(h.ID)
		}
	}
	for range 5 {
		a := w.ask()
		if v := c.Try(a); v.Cause == quota.None {
			c.Keep(a, a.Pods[:v.Count], v.CountedAs(a), time.Time{})
		}
		if at := c.OverLimit(); at != "" {
			w.Fatalf("seed %d: in the copy queue %s holds more than it may", w.seed, at)
		}
		if w.chance.IntN(2) == 0 {
			c.Release(a.ID)
		}
	}
	if v := w.b.Try(ask); !reflect.DeepEqual(v, before) || !w.b.Recount() || !c.Recount() {
		w.Fatalf("seed %d: when its copy has gone on the Book says %+v, and before %+v; the sums are right: %v, %v", w.seed, v, before, w.b.Recount(), c.Recount())
	}
}
