package queue

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
)

// mostUsers is how many users of a queue have their past use in its status, at most.
const mostUsers = 100

// used is the past use of a queue, and of its users where some queue counts by user.
func (t *tally) used(name string) []quota.PastUse {
	if t.users {
		return t.usage.Of(name, mostUsers)
	}
	return t.usage.Of(name, 0)
}

// The reasons of conditions.
const (
	reasonValid    = "Valid"
	reasonProblems = "Problems"
	reasonAdmits   = "Admits"
	reasonStopped  = "Stopped"
	reasonSpent    = "BudgetSpent"
)

// standing returns what the status of each Queue should be, but for the times of its conditions.
func (t *tally) standing() map[string]*v1alpha1.QueueStatus {
	tree, counts, held := t.book.Tree(), t.book.Standings(), t.book.HeldGPUs()
	waits := map[string]int32{}
	seen := map[string]bool{}
	for _, e := range t.pods {
		if e.waits && e.queue != "" && !seen[e.workload] {
			seen[e.workload] = true
			for _, name := range tree.Path(e.queue) {
				waits[name]++
			}
		}
	}
	for _, w := range t.asks() {
		for _, name := range tree.Path(w.Queue) {
			waits[name]++
		}
	}
	out := make(map[string]*v1alpha1.QueueStatus, len(t.queues))
	for name, q := range t.queues {
		s := &v1alpha1.QueueStatus{ObservedGeneration: q.Generation, Waiting: waits[name]}
		var nominal, used, borrowed, lent []amount
		for _, c := range counts[name] {
			gpus := gpusOf(c.Resource)
			nominal, used = append(nominal, amount{gpus, c.Nominal}), append(used, amount{gpus, c.Used})
			borrowed, lent = append(borrowed, amount{gpus, c.Borrowed}), append(lent, amount{gpus, c.Lent})
			s.Resources = append(s.Resources, v1alpha1.QueueResource{
				GPUs: gpus, Nominal: queues.Quantity(c.Nominal), Used: queues.Quantity(c.Used),
				Borrowed: queues.Quantity(c.Borrowed), Lent: queues.Quantity(c.Lent),
			})
		}
		s.Nominal, s.Used, s.Borrowed, s.Lent = inWords(nominal), inWords(used), inWords(borrowed), inWords(lent)
		if len(s.Resources) == 0 {
			s.Used = quota.Text(held[name])
		}
		for _, u := range t.used(name) {
			s.Usage = append(s.Usage, v1alpha1.QueueUsage{User: u.User, GPUSeconds: int64(u.Value), At: metav1.NewTime(u.At.Truncate(time.Second))})
		}
		s.Conditions = []metav1.Condition{t.valid(name), t.active(name)}
		for i := range s.Conditions {
			s.Conditions[i].ObservedGeneration = q.Generation
		}
		out[name] = s
	}
	return out
}

// gpusOf is a resource as Queues name it.
func gpusOf(r quota.Resource) string {
	switch r {
	case quota.GPUs:
		return v1alpha1.GPUsAll
	case quota.Equivalents:
		return v1alpha1.GPUsEquivalents
	}
	return string(r)
}

// amount is parts of one kind of GPUs.
type amount struct {
	gpus  string
	parts int64
}

// inWords writes amounts for tables: those of all GPUs if they are counted, else each kind of
// which there are any.
func inWords(list []amount) string {
	var out []string
	for _, a := range list {
		switch {
		case a.gpus == v1alpha1.GPUsAll:
			return quota.Text(a.parts)
		case a.parts > 0:
			out = append(out, quota.Text(a.parts)+" "+strings.TrimPrefix(a.gpus, "NVIDIA-"))
		}
	}
	if len(out) == 0 && len(list) > 0 {
		return "0"
	}
	return strings.Join(out, ", ")
}

// valid is the condition that all of a Queue can be followed.
func (t *tally) valid(name string) metav1.Condition {
	list := t.problems[name]
	if q := t.queues[name]; t.unassigned != "" && q.Spec.DefaultPriorityClasses != nil {
		list = append(slices.Clip(list), quota.Problem{Queue: name, Field: "spec.defaultPriorityClasses", Text: t.unassigned})
	}
	if len(list) == 0 {
		return metav1.Condition{Type: v1alpha1.QueueValid, Status: metav1.ConditionTrue, Reason: reasonValid}
	}
	var all []string
	for _, p := range list {
		all = append(all, p.Field+": "+p.Text)
	}
	return metav1.Condition{
		Type: v1alpha1.QueueValid, Status: metav1.ConditionFalse, Reason: reasonProblems, Message: cut(strings.Join(all, "; ")),
	}
}

// mostMessage is the longest message of a condition.
const mostMessage = 32 << 10

func cut(text string) string {
	if len(text) <= mostMessage {
		return text
	}
	return strings.ToValidUTF8(text[:mostMessage-3], "") + "..."
}

// active is the condition that a Queue admits workloads.
func (t *tally) active(name string) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.QueueActive, Status: metav1.ConditionTrue, Reason: reasonAdmits}
	for _, at := range t.book.Tree().Path(name) {
		q := t.queues[at]
		switch {
		case slices.ContainsFunc(t.problems[at], func(p quota.Problem) bool { return p.Fatal }):
			c.Status, c.Reason = metav1.ConditionFalse, reasonProblems
			c.Message = fmt.Sprintf("queue %s admits no workloads until its condition Valid is True", at)
			return c
		case q != nil && q.Spec.Stop != "" && q.Spec.Stop != v1alpha1.StopNone:
			c.Status, c.Reason = metav1.ConditionFalse, reasonStopped
			c.Message = fmt.Sprintf("spec.stop of queue %s is %s", at, q.Spec.Stop)
			return c
		case q != nil && queues.Holds(q):
			c.Status, c.Reason = metav1.ConditionFalse, reasonSpent
			c.Message = fmt.Sprintf("the budget of queue %s for this month is spent", at)
			return c
		}
	}
	return c
}

// pod returns a pod by its UID; nil is none.
func (t *tally) pod(uid string) *corev1.Pod {
	if e := t.pods[uid]; e != nil {
		return e.pod
	}
	return nil
}
