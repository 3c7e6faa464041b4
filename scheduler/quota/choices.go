package quota

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
)

// choices are the kinds of GPUs that a pod may get by its queue's quotas, in the order in which
// the queue prefers them.
type choices struct {
	list []quota.Choice
	at   int // the one that nodes are looked for; -1 is all of them
	// failed is how many of list other plugins have refused every node of, in cycles before.
	failed int
}

// admit notes what the pods of a workload may get; nil is any. It is called with mu held.
func (q *Quota) admit(w *quota.Workload, list []quota.Choice) {
	for k := range w.Pods {
		uid := types.UID(w.Pods[k].ID)
		switch was := q.allowed[uid]; {
		case list == nil || !queues.Chooses(&w.Pods[k]):
			delete(q.allowed, uid)
		case was != nil:
			was.list, was.at = list, -1
		default:
			q.allowed[uid] = &choices{list: list, at: -1}
		}
		delete(q.only, uid)
	}
}

// UIDs returns those of pods, in their order.
func UIDs(pods []*v1.Pod) []types.UID {
	out := make([]types.UID, len(pods))
	for i, pod := range pods {
		out[i] = pod.UID
	}
	return out
}

// Choices returns between how many kinds of GPUs pods that are admitted together may choose, one
// after the other; 0 is that each may use any.
func (q *Quota) Choices(pods ...types.UID) int {
	if !q.On() {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, uid := range pods {
		if c := q.allowed[uid]; c != nil {
			return len(c.list)
		}
	}
	return 0
}

// Choose has nodes looked for of choice k alone, from 0; -1 is of all choices. It returns how many
// pods there is quota for.
func (q *Quota) Choose(k int, pods ...types.UID) (count int) {
	if !q.On() {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, uid := range pods {
		if c := q.allowed[uid]; c != nil && k < len(c.list) {
			if c.at = k; k >= 0 {
				count = c.list[k].Count
			}
		}
	}
	return count
}

// ChooseNext is Choose for a pod for which all nodes are asked: the first choice of which they
// have not all refused it.
func (q *Quota) ChooseNext(uid types.UID) {
	if !q.On() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.allowed[uid]; c != nil {
		c.failed = min(c.failed, len(c.list)-1)
		c.at = c.failed
	}
}

// Failing notes that all nodes of the choice that ChooseNext has made have refused a pod, and reports
// whether there is another.
func (q *Quota) Failing(uid types.UID) bool {
	if !q.On() {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.allowed[uid]
	if c == nil || c.at < 0 {
		return false
	}
	if c.failed = c.at + 1; c.failed < len(c.list) {
		return true
	}
	c.failed, c.at = 0, -1
	return false
}

// Narrow has nodes looked for that have one of these kinds of GPUs, whatever there is quota for, for
// the pods of an Ask that have a choice; nil ends that.
func (q *Quota) Narrow(a *Ask, kinds []quota.Kind) {
	if !q.On() {
		return
	}
	q.mu.Lock()
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
	if !q.On() || a == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.workload(a)
	if w == nil {
		return nil
	}
	return q.book.Alternatives(w)
}

// Allowed is the kinds of GPUs of the nodes that are looked for for a pod.
type Allowed struct {
	Kinds []quota.Kind // nil is any
	// Pools is that labels of nodes matter, and not products alone.
	Pools bool
}

// Allowed returns what a pod may get now.
func (q *Quota) Allowed(uid types.UID) Allowed {
	if !q.On() {
		return Allowed{}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	out := Allowed{Kinds: q.only[uid], Pools: len(q.read.Labels) > 0}
	if c := q.allowed[uid]; out.Kinds == nil && c != nil {
		switch {
		case c.at >= 0:
			out.Kinds = c.list[c.at].Kinds
		case len(c.list) == 1:
			out.Kinds = c.list[0].Kinds
		default:
			for _, choice := range c.list {
				out.Kinds = append(out.Kinds, choice.Kinds...)
			}
		}
	}
	return out
}

// Key is equal for pods that may get the same; "" where products alone matter, or nothing does.
func (a Allowed) Key() string {
	if !a.Pools || a.Kinds == nil {
		return ""
	}
	var b strings.Builder
	for _, k := range a.Kinds {
		b.WriteString(k.Product + "\x06" + k.Labels + "\x05")
	}
	return b.String()
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
