package quota

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Book counts what pods hold of the quota of each queue, and what is kept for those
// that are about to be placed. It keeps the workloads that wait for quota in line.
//
// A Book does nothing itself and has no clock and no lock. Equal calls give equal
// answers.
type Book struct {
	tree    *Tree
	use     []int64 // of queue i and resource r at i*len(resources)+r, what is in its pool
	held    []int64 // of queue i and those below it, what of resource r they hold and have kept, at i*len(resources)+r
	users   map[userAt][]int64
	holders map[string]*Holder         // by pod
	kept    map[string]*kept           // by pod
	owed    map[*kept]bool             // of kept, those that pods hold still that are being evicted: see Promise
	works   map[string]map[string]bool // pods with kept, by workload
	line    map[string]*waiter         // those that wait, by workload
	freed   []bool                     // of each root: something has become free since Next
	roots   []int                      // those with freed
	// behindIn is of each root whether Try has found one behind another that is late since Next looked at it last.
	behindIn []bool
	ending   int // of kept, those that end at a time
	decayed  map[userAt]Decay
	now      time.Time // see SetNow
	scratch  []int64
	ranks    map[string]map[int32]int // pods that hold, by queue and priority
	eased    []int                    // queues that hold less since Claims
	evicted  map[string]Evicted       // by owner
	owned    map[string]int           // pods that hold, by owner; those without are not in it

	// Of each queue.
	leaves []leaf
	turns  []turn  // its place among its siblings; queue -1: none of it waits
	below  [][]int // its children that wait, or below which some do, in the order of their turns
	moved  []int   // those that are to be put in order again

	// Kinds of GPUs that count differently are numbered; those that count the same have one number.
	kinds   map[Kind]int
	counted map[string]int // by what Tree.counts says of them
	least   [][]int64      // by kind, then by queue and resource: no more than any that waits in the queue or below it asks for of the kind
}

// userAt is a user of a queue or of those below it; of the past, user "" is the queue itself.
type userAt struct {
	queue string
	user  string
}

// NewBook returns a Book of a Tree in which nobody holds anything.
func NewBook(t *Tree) *Book {
	b := &Book{
		holders: map[string]*Holder{}, kept: map[string]*kept{}, owed: map[*kept]bool{}, works: map[string]map[string]bool{}, line: map[string]*waiter{},
		decayed: map[userAt]Decay{}, ranks: map[string]map[int32]int{}, evicted: map[string]Evicted{}, owned: map[string]int{},
	}
	b.SetTree(t)
	return b
}

// Tree returns the queues that the Book counts by.
func (b *Book) Tree() *Tree { return b.tree }

// SetTree has the Book count by other queues. Nobody loses what they hold. Workloads that
// wait are looked at again by Next; those of a queue that was deleted, and those that would use GPUs
// in a way that their queue does not allow, are returned, in the order of their turns: they are to
// be tried again.
func (b *Book) SetTree(t *Tree) (call []string) {
	b.tree = t
	b.use, b.held = make([]int64, len(t.specs)*len(t.resources)), make([]int64, len(t.specs)*len(t.resources))
	b.users = map[userAt][]int64{}
	waiting := slices.Collect(maps.Values(b.line))
	slices.SortFunc(waiting, func(x, y *waiter) int { return compare(x, y) })
	b.line, b.moved, b.eased, b.leaves, b.freed = map[string]*waiter{}, nil, nil, make([]leaf, len(t.specs)), make([]bool, len(t.specs))
	b.behindIn = make([]bool, len(t.specs))
	b.turns, b.below = make([]turn, len(t.specs)), make([][]int, len(t.specs))
	b.kinds, b.counted, b.least = map[Kind]int{}, map[string]int{}, nil
	for i := range b.leaves {
		b.leaves[i].lines, b.turns[i].queue = map[string][]*waiter{}, -1
	}
	for _, id := range slices.Sorted(maps.Keys(b.holders)) {
		h := b.holders[id]
		b.count(h.Queue, h.User, h.Pieces, Kind{}, 1)
	}
	for _, id := range slices.Sorted(maps.Keys(b.kept)) {
		k := b.kept[id]
		b.count(k.queue, k.user, k.pieces, k.kind, 1)
	}
	for _, w := range waiting {
		if i, there := t.ask[w.Queue]; !there || !t.allows(i, &w.Workload) {
			call = append(call, w.ID)
			continue
		}
		b.enter(&w.Workload)
	}
	b.roots = nil
	for i, parent := range t.parent {
		if b.freed[i] = parent < 0; parent < 0 {
			b.roots = append(b.roots, i)
		} else {
			b.eased = append(b.eased, i) // it may be entitled to more now
		}
	}
	return call
}

// count adds the amounts of pieces to a queue and its ancestors, times sign.
func (b *Book) count(queue, user string, pieces []Piece, kind Kind, sign int64) {
	i, ok := b.tree.ask[queue]
	if !ok {
		return
	}
	v := append(b.scratch[:0], make([]int64, len(b.tree.resources))...)
	b.scratch = v
	b.tree.addTo(v, pieces, kind)
	b.countVector(i, user, v, sign)
}

// countVector is count by amounts of each resource.
func (b *Book) countVector(i int, user string, v []int64, sign int64) {
	if sign < 0 && len(b.freed) > 0 {
		b.frees(i)
		if n := len(b.eased); n == 0 || b.eased[n-1] != i {
			b.eased = append(b.eased, i)
		}
	}
	n := len(b.tree.resources)
	for r, amount := range v {
		if amount == 0 || !b.tree.limits[i*n+r] {
			continue
		}
		for at, d := i, sign*amount; at >= 0 && d != 0; at = b.tree.parent[at] {
			p := at*n + r
			before := max(0, b.use[p]-b.tree.kept[p])
			b.use[p] += d
			d = max(0, b.use[p]-b.tree.kept[p]) - before
		}
	}
	for at := i; at >= 0; at = b.tree.parent[at] {
		spec := &b.tree.specs[at]
		if b.tree.own[at] {
			continue
		}
		for r, amount := range v {
			b.held[at*n+r] += sign * amount
		}
		if len(spec.PerUser) > 0 || spec.FairUsers {
			b.countUser(userAt{spec.Name, known(user)}, v, sign)
		}
	}
	if len(b.leaves) == 0 {
		return
	}
	for at := i; at >= 0; at = b.tree.parent[at] {
		if own := b.tree.ask[b.tree.specs[at].Name]; b.tree.specs[own].FairUsers && b.leaves[own].count > 0 {
			b.lead(own)
		}
	}
	if n := len(b.moved); n == 0 || b.moved[n-1] != i {
		b.moved = append(b.moved, i)
	}
}

// frees notes that something has become free for queue i: Next looks at its tree again.
func (b *Book) frees(i int) {
	if root := b.tree.root[i]; !b.freed[root] {
		b.freed[root] = true
		b.roots = append(b.roots, root)
	}
}

// known is the name that a user is counted by: those who are not known are one user.
func known(user string) string {
	if user == "" {
		return Unknown
	}
	return user
}

// Unknown is the user of pods of which it is not known who made them.
const Unknown = "-"

func (b *Book) countUser(key userAt, v []int64, sign int64) {
	sum := b.users[key]
	if sum == nil {
		sum = make([]int64, len(v))
		b.users[key] = sum
	}
	left := int64(0)
	for r := range v {
		sum[r] += sign * v[r]
		left |= sum[r]
	}
	if left == 0 {
		delete(b.users, key)
	}
}

// Hold counts a pod that has devices, or changes what is known of it. Quota that was kept for it
// is not kept any longer. Next says who may go on because of it.
func (b *Book) Hold(h *Holder) {
	if b.takes(h) {
		return
	}
	b.unkeep(h.ID)
	was := b.holders[h.ID]
	if was == nil || was.Queue != h.Queue || was.Priority != h.Priority || was.owner() != h.owner() {
		b.rank(was, -1)
		b.rank(h, 1)
	}
	if was != nil {
		if was.Queue == h.Queue && was.User == h.User && slices.Equal(was.Pieces, h.Pieces) {
			*was = *h
			return
		}
		b.count(was.Queue, was.User, was.Pieces, Kind{}, -1)
	}
	c := *h
	b.holders[h.ID] = &c
	b.count(c.Queue, c.User, c.Pieces, Kind{}, 1)
}

// takes has a pod hold what is kept for it, if that is just as much: nothing becomes free then.
func (b *Book) takes(h *Holder) bool {
	k := b.kept[h.ID]
	if k == nil || b.holders[h.ID] != nil || k.queue != h.Queue || k.user != h.User ||
		!slices.Equal(b.tree.vector(k.pieces, k.kind), b.tree.vector(h.Pieces, Kind{})) {
		return false
	}
	b.discard(h.ID, k)
	b.rank(h, 1)
	c := *h
	b.holders[h.ID] = &c
	return true
}

// Holder returns what is known of a pod that holds quota; ok is false for others.
func (b *Book) Holder(pod string) (h Holder, ok bool) {
	if held := b.holders[pod]; held != nil {
		return *held, true
	}
	return Holder{}, false
}

// Gone forgets a pod that holds nothing any longer. Next says who may go on then.
func (b *Book) Gone(pod string) {
	b.unkeep(pod)
	if h := b.holders[pod]; h != nil {
		delete(b.holders, pod)
		b.rank(h, -1)
		b.count(h.Queue, h.User, h.Pieces, Kind{}, -1)
	}
}

// rank counts a holder among those of its queue and priority, and of its owner, times sign; nil
// is none.
func (b *Book) rank(h *Holder, sign int) {
	if h == nil {
		return
	}
	if h.Owner != "" {
		tally(b.owned, h.Owner, sign)
	}
	of := b.ranks[h.Queue]
	if of == nil {
		of = map[int32]int{}
		b.ranks[h.Queue] = of
	}
	tally(of, h.Priority, sign)
}

// tally adds to the number of a key, and keeps none that is 0.
func tally[K comparable](of map[K]int, key K, n int) {
	if n += of[key]; n == 0 {
		delete(of, key)
	} else {
		of[key] = n
	}
}

// Holders returns the pods that hold quota, by ID.
func (b *Book) Holders() []Holder {
	out := make([]Holder, 0, len(b.holders))
	for _, h := range b.holders {
		out = append(out, *h)
	}
	slices.SortFunc(out, func(a, b Holder) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// free returns how much of a resource a queue may still take, and the queue whose pool or
// limit leaves no more. It is Unlimited for a resource that nothing limits.
func (b *Book) free(i, r int) (amount int64, at int) {
	t, n := b.tree, len(b.tree.resources)
	p := i*n + r
	if !t.limits[p] {
		return Unlimited, i
	}
	if t.parent[i] < 0 {
		return t.pool[p] - b.use[p], i
	}
	amount, at = b.free(t.parent[i], r)
	if t.borrow[p] != Unlimited {
		own := t.pool[p] - t.kept[p] - max(0, b.use[p]-t.kept[p])
		if most := add(own, t.borrow[p]); most < amount {
			amount, at = most, i
		}
	}
	return add(amount, max(0, t.kept[p]-b.use[p])), at
}
