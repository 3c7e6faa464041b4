package quota

import (
	"maps"
	"slices"

	"berth.dev/berth/core/sharing"
)

// Cause is why a workload may not have what it asks for now.
type Cause uint8

// The causes, the one that counts first where several hold.
const (
	None Cause = iota
	// NoQueue is that its queue does not exist or cannot be understood.
	NoQueue
	// Mixed is that some of its pods are of another queue, or of none.
	Mixed
	// Sharing is that one of its pods would use GPUs in a way that the queue does not allow.
	Sharing
	// PodLimit is that one of its pods asks for more than a pod of the queue may have.
	PodLimit
	// Never is that it asks for more than the queue can ever have.
	Never
	// Stopped is that the queue, or one above it, admits nothing.
	Stopped
	// Spent is that the budget of the queue, or of one above it, is spent, and that it holds new work then.
	Spent
	// UserLimit is that its user would have more than a user may.
	UserLimit
	// BorrowingLimit is that its queue would borrow more than it may.
	BorrowingLimit
	// Used is that its queue, or the tree that it could borrow from, has not enough left.
	Used
	// Behind is that what it asks for is kept for a workload before it in line, which has waited long: see SetNow.
	Behind
)

// Passes reports whether the end of other pods can give what was refused for the cause.
func (c Cause) Passes() bool { return c >= UserLimit && c != Behind }

// Verdict is what a Book says of a workload.
type Verdict struct {
	Cause Cause // None: it may go on
	// Queue is whose quota or limit is the cause; Other is the other queue of a workload that is
	// Mixed, "" is none, and User whose limit it is, if that is not the workload's user.
	Queue    string
	Other    string
	User     string
	Resource Resource
	// Asked, Held and Most are parts: what the workload asks for, what is held against
	// the limit, and the limit. For Behind, Most is what the workload before it asks for.
	Asked, Held, Most int64
	// Ways are those in which a pod would use GPUs and must not, and Allowed those that the queue
	// allows: of the cause Sharing.
	Ways, Allowed sharing.Ways
	// Choices are what it may go on with, in the order in which its queue prefers them; nil is any
	// kind of GPUs. It gets the first that nodes have room for, and is placed on these alone.
	Choices []Choice
	// Count and Borrows are those of the first choice.
	Count   int
	Borrows bool
}

// Choice is kinds of GPUs for each of which there is quota for a workload.
type Choice struct {
	Kinds []Kind
	// Count is how many of its pods may go on, at least Need.
	Count int
	// Borrows is that its queue would hold more than its nominal quota.
	Borrows bool
}

// Try reports whether a workload may have what it asks for beside what others hold and have
// kept. Its own kept quota does not count against it, and if that is for all its pods, nor does what is
// owed to others: see Promise.
func (b *Book) Try(w *Workload) Verdict {
	aside := b.setAside(w)
	v := b.try(w)
	if i, ok := b.tree.ask[w.Queue]; ok && (v.Cause == None || v.Cause.Passes()) {
		if no := b.behind(i, w); no.Cause != None {
			v = no
		}
	}
	b.putBack(aside)
	return v
}

// Affords reports whether there is quota for a claim as things are: what is kept for it does not count against it. Then Victims takes
// none where none are gone.
func (b *Book) Affords(c *Claim) bool {
	var own []*kept
	for pod := range b.works[c.ID] {
		own = append(own, b.kept[pod])
	}
	for _, k := range own {
		b.countKept(k, -1)
	}
	v := b.try(c.Workload)
	b.putBack(own)
	return v.Cause == None
}

// StillLacks reports that Try refuses a workload as before, since there is still less left of what it lacked then than it
// asks for. It asks only that, and so answers sooner; false says nothing.
func (b *Book) StillLacks(w *Workload, no *Verdict) bool {
	i, ok := b.tree.ask[w.Queue]
	if !ok || no.Cause != Used && no.Cause != BorrowingLimit || len(b.works[w.ID]) > 0 || len(w.Kinds) > 1 && b.tree.byKind() {
		return false
	}
	free, _ := b.free(i, b.tree.resource(no.Resource))
	return no.Asked > free
}

// setAside removes from the count what does not count against a workload.
func (b *Book) setAside(w *Workload) []*kept {
	var out []*kept
	for pod := range b.works[w.ID] {
		out = append(out, b.kept[pod])
	}
	if len(out) > 0 && len(out) >= len(w.Pods) {
		for k := range b.owed {
			if k.workload != w.ID {
				out = append(out, k)
			}
		}
	}
	for _, k := range out {
		b.countKept(k, -1)
	}
	return out
}

func (b *Book) putBack(list []*kept) {
	for _, k := range list {
		b.countKept(k, 1)
	}
}

// countKept counts what is kept and wakes no one: it is put back.
func (b *Book) countKept(k *kept, sign int64) {
	freed := b.freed
	b.freed = nil
	b.count(k.queue, k.user, k.pieces, k.kind, sign)
	b.freed = freed
}

// try is Try. It takes those kinds with which the workload fits, step by step.
func (b *Book) try(w *Workload) Verdict {
	i, ok := b.tree.ask[w.Queue]
	if !ok || b.tree.fatal[i] {
		return Verdict{Cause: NoQueue, Queue: w.Queue}
	}
	if w.Mixed {
		return Verdict{Cause: Mixed, Queue: w.Queue, Other: w.Other}
	}
	steps, all := b.stepsOf(w, i)
	if all && len(steps) == 1 && len(steps[0]) == 1 {
		return b.tryAs(w, i, steps[0][0])
	}
	var no Verdict
	var choices []Choice
	for _, kinds := range steps {
		var c Choice
		for _, kind := range kinds {
			switch v := b.tryAs(w, i, kind); {
			case v.Cause == None && c.Count == 0:
				c = Choice{[]Kind{kind}, v.Count, v.Borrows}
			case v.Cause == None:
				c.Kinds = append(c.Kinds, kind)
				c.Count, c.Borrows = min(c.Count, v.Count), c.Borrows || v.Borrows
			case no.Cause == None || v.Cause > no.Cause || v.Cause == no.Cause && v.Most-v.Held > no.Most-no.Held:
				no = v
			}
		}
		if c.Count > 0 {
			choices = append(choices, c)
		}
	}
	if len(choices) == 0 {
		return no
	}
	yes := Verdict{Choices: choices, Count: choices[0].Count, Borrows: choices[0].Borrows}
	if all && len(steps) == 1 && no.Cause == None {
		yes.Choices = nil
	}
	return yes
}

// tryAs is try with all pieces of a kind whose own is not known.
func (b *Book) tryAs(w *Workload, i int, kind Kind) Verdict {
	t := b.tree
	sum := make([]int64, len(t.resources))
	for k := range w.Pods {
		if no := t.sharing(i, w.Pods[k].Ways); no.Cause != None {
			return no
		}
		v := t.vector(w.Pods[k].Pieces, kind)
		if no := b.podLimit(i, v); no.Cause != None {
			return no
		}
		for r := range v {
			sum[r] += v[r]
		}
		if k+1 < w.need() {
			continue
		}
		if no := b.fits(i, w, k+1, sum, kind); no.Cause != None {
			if k+1 > w.need() {
				for r := range v {
					sum[r] -= v[r]
				}
				return Verdict{Count: k, Borrows: b.borrows(i, sum)}
			}
			return no
		}
	}
	return Verdict{Count: len(w.Pods), Borrows: b.borrows(i, sum)}
}

// podLimit reports whether a pod asks for more than one may have.
func (b *Book) podLimit(i int, v []int64) Verdict {
	t := b.tree
	for at := i; at >= 0; at = t.parent[at] {
		for _, l := range t.specs[at].PerPod {
			if asked := v[t.resource(l.Resource)]; asked > l.Most {
				return Verdict{Cause: PodLimit, Queue: t.specs[at].Name, Resource: l.Resource, Asked: asked, Most: l.Most}
			}
		}
	}
	return Verdict{}
}

// fits reports whether a queue may take the first n pods of a workload, of which v is the amounts
// with all pieces of a kind whose own is not known.
func (b *Book) fits(i int, w *Workload, n int, v []int64, kind Kind) Verdict {
	t := b.tree
	for at := i; at >= 0; at = t.parent[at] {
		if t.specs[at].Stop {
			return Verdict{Cause: Stopped, Queue: t.specs[at].Name}
		}
		if t.specs[at].Spent {
			return Verdict{Cause: Spent, Queue: t.specs[at].Name}
		}
	}
	var worst Verdict
	for r, asked := range v {
		if asked == 0 || !t.limits[i*len(v)+r] {
			continue
		}
		free, at := b.free(i, r)
		if asked <= free {
			continue
		}
		held := b.heldOf(at, r)
		no := Verdict{Cause: Used, Queue: t.specs[at].Name, Resource: t.resources[r], Asked: asked, Held: held, Most: held + free}
		switch {
		case asked > b.most(i, r):
			no.Cause, no.Most = Never, b.most(i, r)
		case at == i && t.parent[i] >= 0 || t.borrow[at*len(v)+r] != Unlimited && t.parent[at] >= 0:
			no.Cause = BorrowingLimit
		}
		if worst.Cause == None || no.Cause < worst.Cause {
			worst = no
		}
	}
	if worst.Cause != None && !worst.Cause.Passes() {
		return worst
	}
	if no := b.userLimits(i, w, n, v, kind); no.Cause != None {
		return no
	}
	return worst
}

// userLimits reports whether a user of the first n pods of a workload would have more than one
// may. The pods of a gang can be of several users, and each counts for its own.
func (b *Book) userLimits(i int, w *Workload, n int, v []int64, kind Kind) Verdict {
	pods := w.Pods[:n]
	if !slices.ContainsFunc(pods, func(p Pod) bool { return w.userOf(&p) != w.User }) {
		return b.userLimit(i, w.User, v)
	}
	sums := map[string][]int64{}
	for k := range pods {
		user := w.userOf(&pods[k])
		if sums[user] == nil {
			sums[user] = make([]int64, len(v))
		}
		b.tree.addTo(sums[user], pods[k].Pieces, kind)
	}
	for _, user := range slices.Sorted(maps.Keys(sums)) {
		if no := b.userLimit(i, user, sums[user]); no.Cause != None {
			no.User = user
			return no
		}
	}
	return Verdict{}
}

// userLimit reports whether a user would have more than one may.
func (b *Book) userLimit(i int, user string, v []int64) Verdict {
	t := b.tree
	for at := i; at >= 0; at = t.parent[at] {
		for _, l := range t.specs[at].PerUser {
			r, held := t.resource(l.Resource), int64(0)
			if sum := b.users[userAt{t.specs[at].Name, known(user)}]; sum != nil {
				held = sum[r]
			}
			if v[r] > 0 && held+v[r] > l.Most {
				return Verdict{Cause: UserLimit, Queue: t.specs[at].Name, Resource: l.Resource, Asked: v[r], Held: held, Most: l.Most}
			}
		}
	}
	return Verdict{}
}

// heldOf is what a queue and those below it hold and have kept.
func (b *Book) heldOf(i, r int) int64 {
	return b.held[b.tree.whole(i)*len(b.tree.resources)+r]
}

// most is the most of a resource that a queue could ever hold, if no other held any.
func (b *Book) most(i, r int) int64 {
	t, n := b.tree, len(b.tree.resources)
	p := i*n + r
	if t.parent[i] < 0 {
		return t.pool[p]
	}
	return min(add(t.kept[p], b.most(t.parent[i], r)), add(t.pool[p], t.borrow[p]))
}

// borrows reports whether a queue would hold more than its nominal quota with an amount
// more.
func (b *Book) borrows(i int, v []int64) bool {
	n := len(b.tree.resources)
	for r, asked := range v {
		if p := i*n + r; asked > 0 && b.tree.limits[p] && b.use[p]+asked > b.tree.pool[p] {
			return true
		}
	}
	return false
}

// Holds returns what a queue and those below it hold and have kept, by the resources of
// the Tree.
func (b *Book) Holds(queue string) []int64 {
	n := len(b.tree.resources)
	i, there := b.tree.index[queue]
	if !there {
		return make([]int64, n)
	}
	return slices.Clone(b.held[i*n : (i+1)*n])
}
