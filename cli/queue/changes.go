package queue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
)

// changes says what is different for whom, in sentences.
func changes(now, then *state) []string {
	out := slices.Concat(moved(now, then), drained(now, then), barred(now, then), overdrawn(now, then), waits(now, then))
	if len(out) == 0 {
		return []string{"nothing changes for the workloads of the cluster"}
	}
	return out
}

// moved lists the namespaces that change their queue, and how many pods with GPUs they have.
func moved(now, then *state) (out []string) {
	pods := map[string]int{}
	for _, pod := range now.pods {
		if request.Of(pod) != nil {
			pods[pod.Namespace]++
		}
	}
	for _, ns := range now.situation.Namespaces {
		from, to := now.count.Members.OfNamespace(ns), then.count.Members.OfNamespace(ns)
		if from.Queue == to.Queue {
			continue
		}
		out = append(out, fmt.Sprintf("namespace %s, %s with GPUs: from %s to %s (%s)",
			ns.Name, term.Count(pods[ns.Name], "pod"), cmp.Or(from.Queue, "no queue"), cmp.Or(to.Queue, "no queue"), to.Why))
	}
	slices.Sort(out)
	return out
}

// drained lists the queues that would evict what runs in them, and how many pods that is.
func drained(now, then *state) (out []string) {
	drains := func(s *state, name string) bool {
		return slices.ContainsFunc(s.queues, func(q *v1alpha1.Queue) bool {
			return q.Name == name && q.Spec.Stop == v1alpha1.StopHoldAndDrain
		})
	}
	for _, q := range then.queues {
		if !drains(then, q.Name) || drains(now, q.Name) {
			continue
		}
		pods := 0
		for _, h := range then.count.Book.Holders() {
			if slices.Contains(then.tree.Path(h.Queue), q.Name) {
				pods++
			}
		}
		out = append(out, fmt.Sprintf("queue %s evicts what runs in it and below: %s", q.Name, term.Count(pods, "pod")))
	}
	return out
}

// barred lists the pods with a node that use GPUs in a way that their queue would not allow, and
// does now, by queue.
func barred(now, then *state) (out []string) {
	type use struct {
		queue string
		ways  sharing.Ways
	}
	pods := map[use][]string{}
	for _, pod := range then.pods {
		if pod.Spec.NodeName == "" || request.Of(pod) == nil || request.Ended(pod) {
			continue
		}
		to, ways := then.count.QueueOf(pod).Queue, then.count.Offers.WaysOf(pod)
		if no := ways &^ then.tree.Ways(to); no != 0 && no.In(now.tree.Ways(now.count.QueueOf(pod).Queue)) {
			pods[use{to, no}] = append(pods[use{to, no}], pod.Namespace+"/"+pod.Name)
		}
	}
	for at, names := range pods {
		slices.Sort(names)
		out = append(out, fmt.Sprintf("queue %s allows only %s: %s of it %s GPUs by %s and %s: %s", at.queue, then.tree.Ways(at.queue).Text("and"),
			term.Count(len(names), "pod"), verb(len(names), "uses", "use"), at.ways.Text("and"), verb(len(names), "goes on", "go on"), first(names)))
	}
	slices.Sort(out)
	return out
}

// mostPods is how many pods a sentence names.
const mostPods = 5

// first names the first of some pods.
func first(names []string) string {
	if more := len(names) - mostPods; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostPods], ", "), more)
	}
	return strings.Join(names, ", ")
}

// verb is a verb for one, or for several.
func verb(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

// overdrawn lists the queues that would hold more than their nominal quota, and do not, or hold
// less than that.
func overdrawn(now, then *state) (out []string) {
	before, after := now.count.Book.Standings(), then.count.Book.Standings()
	for _, name := range slices.Sorted(maps.Keys(after)) {
		for _, a := range after[name] {
			over := max(0, a.Used-a.Nominal)
			i := slices.IndexFunc(before[name], func(b quota.Standing) bool { return b.Resource == a.Resource })
			if over == 0 || i >= 0 && over <= max(0, before[name][i].Used-before[name][i].Nominal) {
				continue
			}
			text := fmt.Sprintf("queue %s holds %s %s of a nominal quota of %s", name, number(gpus(a.Used)), short(queues.GPUsOf(a.Resource)), number(gpus(a.Nominal)))
			if a.Borrowed > 0 {
				text += fmt.Sprintf(": it borrows %s, which other queues can take back", number(gpus(a.Borrowed)))
			} else {
				text += ": it admits nothing until it holds less; what runs goes on"
			}
			out = append(out, text)
		}
	}
	return out
}

// waits lists the workloads without a node for which quota is there and was not, or the
// other way round.
func waits(now, then *state) (out []string) {
	seen := map[string]bool{}
	for _, pod := range now.pods {
		id := queues.Workload(pod)
		if pod.Spec.NodeName != "" || request.Of(pod) == nil || seen[id] || pod.Status.Phase != v1.PodPending {
			continue
		}
		seen[id] = true
		user := ""
		if w := then.count.WorkloadOf(pod); w != nil {
			user = w.User
		}
		out = append(out, waitsNow(request.OwnerOf(pod), "the pod", now.count.Verdict(pod), then.count.Verdict(pod), user)...)
	}
	for _, s := range now.situation.Suspended {
		var before, after quota.Verdict
		if w := now.count.WorkloadFor(s); w != nil {
			before = now.count.Book.Try(w)
		}
		if w := then.count.WorkloadFor(s); w != nil {
			after = then.count.Book.Try(w)
		}
		owner := request.Owner{Kind: s.Kind, Namespace: s.Object.GetNamespace(), Name: s.Object.GetName()}
		out = append(out, waitsNow(owner, "the "+s.Kind, before, after, then.count.UserOf(s.Sets[0].Pod))...)
	}
	slices.Sort(out)
	return out
}

// waitsNow says that a workload waits for quota, and did not before, or the other way round.
func waitsNow(owner request.Owner, what string, before, after quota.Verdict, user string) []string {
	who := fmt.Sprintf("%s %s/%s", owner.Namespace, strings.ToLower(owner.Kind), owner.Name)
	switch {
	case before.Cause != quota.None && after.Cause == quota.None:
		return []string{who + ": there is quota for it, for which it waits now"}
	case before.Cause == quota.None && after.Cause != quota.None:
		return []string{fmt.Sprintf("%s: it waits for quota: %s", who, after.Sentence(what, user))}
	}
	return nil
}
