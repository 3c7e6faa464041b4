package quota

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
)

// admit notes what the pods of a workload may get; nil is any. It is called with mu held.
func (q *Quota) admit(w *quota.Workload, list []quota.Choice) {
	for k := range w.Pods {
		uid := types.UID(w.Pods[k].ID)
		switch was := q.allowed[uid]; {
		case list == nil || !queues.Chooses(&w.Pods[k]):
			delete(q.allowed, uid)
		case was != nil:
			was.Renew(list)
		default:
			q.allowed[uid] = quota.NewSelection(list)
		}
		delete(q.only, uid)
	}
}

// Choices returns between how many kinds of GPUs pods that are admitted together may choose, one
// after the other; 0 is that each may use any.
func (q *Quota) Choices(pods ...*v1.Pod) int {
	if !q.enter() {
		return 0
	}
	defer q.mu.Unlock()
	for _, pod := range pods {
		if c := q.allowed[pod.UID]; c != nil {
			return c.Len()
		}
	}
	return 0
}

// Choose has nodes looked for of choice k alone, from 0; -1 is of all choices. It returns how many
// pods there is quota for.
func (q *Quota) Choose(k int, pods ...*v1.Pod) (count int) {
	if !q.enter() {
		return 0
	}
	defer q.mu.Unlock()
	for _, pod := range pods {
		count = cmp.Or(q.allowed[pod.UID].Select(k), count)
	}
	return count
}

// ChooseNext is Choose for a pod for which all nodes are asked: the first choice of which they
// have not all refused it.
func (q *Quota) ChooseNext(uid types.UID) {
	if q.enter() {
		q.allowed[uid].Next()
		q.mu.Unlock()
	}
}

// Failing notes that all nodes of the choice that ChooseNext has made have refused a pod, and reports
// whether there is another.
func (q *Quota) Failing(uid types.UID) bool {
	if !q.enter() {
		return false
	}
	defer q.mu.Unlock()
	return q.allowed[uid].Fail()
}

// Narrow has nodes looked for that have one of these kinds of GPUs, whatever there is quota for, for
// the pods of an Ask that have a choice; nil ends that.
func (q *Quota) Narrow(a *Ask, kinds []quota.Kind) {
	if !q.enter() {
		return
	}
	defer q.mu.Unlock()
	if a.Kinds = kinds; kinds == nil {
		for _, pod := range a.Pods {
			delete(q.only, pod.UID)
		}
		return
	}
	w := q.workload(a)
	for k := 0; w != nil && k < len(w.Pods); k++ {
		if queues.Chooses(&w.Pods[k]) {
			q.only[types.UID(w.Pods[k].ID)] = kinds
		}
	}
}

// Alternatives are the kinds of GPUs that an Ask may use: see quota.Book.Alternatives.
func (q *Quota) Alternatives(a *Ask) [][]quota.Kind {
	if a == nil || !q.enter() {
		return nil
	}
	defer q.mu.Unlock()
	w := q.workload(a)
	if w == nil {
		return nil
	}
	return q.book.Alternatives(w)
}

// Allowed returns what a pod may get now.
func (q *Quota) Allowed(uid types.UID) quota.Allowed {
	if !q.enter() {
		return quota.Allowed{}
	}
	defer q.mu.Unlock()
	out := quota.Allowed{Kinds: q.only[uid], Pools: len(q.read.Labels) > 0}
	if out.Kinds == nil {
		out.Kinds = q.allowed[uid].Kinds()
	}
	return out
}

// May reports whether a pod may use a node, by the kind of its GPUs.
func (q *Quota) May(uid types.UID, node *v1.Node) bool {
	a := q.Allowed(uid)
	return a.Kinds == nil || slices.Contains(a.Kinds, q.KindOf(node))
}

// KindOf returns the kind of a node's GPUs.
func (q *Quota) KindOf(node *v1.Node) quota.Kind {
	q.mu.Lock()
	of := q.read.Kind
	q.mu.Unlock()
	if of == nil {
		return quota.Kind{}
	}
	return of(node)
}
