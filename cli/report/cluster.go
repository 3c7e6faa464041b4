package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/cli/cost"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/view"
)

// shares is how pods use GPUs now, and what keeps them from each other: those that others can disturb first.
func shares(l *live) section {
	s := section{
		title: "How pods share GPUs", head: []string{"holder", "node", "GPUs", "way", "beside", "isolation", "memory"},
		note: "Now. Beside is how many other pods are known to be on the same GPUs.",
	}
	list := l.view.Shares(l.nodes, l.pods)
	slices.SortStableFunc(list, func(a, b view.Share) int {
		safe := map[bool]int{false: 0, true: 1}
		return cmp.Or(cmp.Compare(safe[a.Ways.Fence().Safe], safe[b.Ways.Fence().Safe]), cmp.Compare(b.Neighbors, a.Neighbors))
	})
	for i := range list {
		one := &list[i]
		fence := one.Ways.Fence()
		s.add(float64(one.MilliGPU), one.Owner.String(), one.Node, fmt.Sprintf("%.4g", float64(one.MilliGPU)/1000), cmp.Or(one.Ways.Text("and"), "not known"), fmt.Sprint(one.Neighbors), fence.Isolation, fence.Memory)
	}
	return s
}

// services are the kinds of what serves.
var services = []string{"Deployment", "InferenceService", "StatefulSet"}

// leftovers is what holds nothing any longer, and services that do nothing.
func leftovers(f *facts) section {
	s := section{
		title: "Left over", head: []string{"object", "since", "volumes", "what"},
		note: "Finished jobs that are still there, stopped notebooks that keep 10 GiB and more, and services that hold GPUs and do nothing.",
	}
	for i := range f.idle.Rows {
		r := &f.idle.Rows[i]
		if slices.Contains(services, r.Kind) {
			s.add(float64(r.CostMicros)/1e6, r.Namespace+"/"+r.Kind+"/"+r.Owner, duration.HumanDuration(f.idle.Now.Sub(r.Since)), "-", fmt.Sprintf("serves nothing, holds %.4g GPUs, %s so far", r.GPUs, cost.Money(r.CostMicros, r.Currency)))
		}
	}
	for _, l := range f.live.leftovers {
		size := "-"
		if l.Bytes > 0 {
			size = fmt.Sprintf("%.0f GiB", float64(l.Bytes)/(1<<30))
		}
		s.add(float64(l.Bytes)/(1<<30), l.Namespace+"/"+l.Kind+"/"+l.Name, ago(l.Since, f.cost.To), size, string(l.What))
	}
	return s
}

// rules is how the cluster allocates GPUs: its schedulers, nodes, queues, priorities, and what watches them.
func rules(f *facts) section {
	l := f.live
	s := section{title: "Rules of this cluster", note: "How GPUs are allocated, in which order, and what watches them.", head: []string{"what", "how it is"}, plain: true, all: true}
	add := func(what, how string) { s.add(0, what, how) }
	schedulers := map[string]int{}
	for _, p := range l.pods {
		if request.AsksForGPUs(p) {
			schedulers[cmp.Or(p.Spec.SchedulerName, v1.DefaultSchedulerName)]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schedulers)) {
		add("scheduler "+name, fmt.Sprintf("places %d pods with GPUs", schedulers[name]))
	}
	offers := map[string]int{}
	for i := range l.view.Nodes {
		if n := &l.view.Nodes[i]; n.Physical > 0 {
			offers[gpu.ShortName(n.Product)+" as "+cmp.Or(n.Sharing, "whole GPUs")] += n.Physical
		}
	}
	for _, name := range slices.Sorted(maps.Keys(offers)) {
		add("GPUs", fmt.Sprintf("%d %s", offers[name], name))
	}
	if len(l.queues) == 0 {
		add("queues", "none: the highest priority goes first, then the oldest")
	}
	for _, q := range l.queues {
		add("queue "+q.Name, queueText(&q.Spec))
	}
	for i := range l.classes {
		c := &l.classes[i]
		if strings.HasPrefix(c.Name, "system-") {
			continue
		}
		text := fmt.Sprintf("priority %d", c.Value)
		if c.PreemptionPolicy != nil && *c.PreemptionPolicy == v1.PreemptNever {
			text += ", evicts no pods"
		}
		if c.GlobalDefault {
			text += ", of pods that name none"
		}
		add("priority class "+c.Name, text)
	}
	gpuNodes, priced := 0, 0
	for i := range l.view.Nodes {
		if n := &l.view.Nodes[i]; n.Physical > 0 {
			gpuNodes++
			priced += len(n.Prices)
		}
	}
	add("metrics of GPUs", fmt.Sprintf("%d exporters for %d nodes with GPUs", l.exporters, gpuNodes))
	add("ledger", "since "+day(f.cost.Began)+fmt.Sprintf("; %d of %d nodes with GPUs have a price", priced, gpuNodes))
	add("target", "a mean use of "+percent(f.target)+" of held GPUs")
	return s
}

// queueText is what a queue may hold, and its rules.
func queueText(q *v1alpha1.QueueSpec) string {
	var parts []string
	for i := range q.Quotas {
		one := &q.Quotas[i]
		text := fmt.Sprintf("%s %s", one.Nominal.String(), one.GPUs)
		if one.BorrowingLimit != nil {
			text += ", borrows at most " + one.BorrowingLimit.String()
		}
		if one.LendingLimit != nil {
			text += ", lends at most " + one.LendingLimit.String()
		}
		parts = append(parts, text)
	}
	if q.Parent != "" {
		parts = append(parts, "below "+q.Parent)
	}
	if q.Weight != nil {
		parts = append(parts, fmt.Sprintf("weight %d", *q.Weight))
	}
	for i := range q.PerUser {
		parts = append(parts, fmt.Sprintf("each user at most %s %s", q.PerUser[i].Max.String(), q.PerUser[i].GPUs))
	}
	if q.Order != "" {
		parts = append(parts, "order "+string(q.Order))
	}
	if q.MaxRunTime != "" {
		parts = append(parts, "workloads run at most "+q.MaxRunTime)
	}
	if q.Stop != "" && q.Stop != v1alpha1.StopNone {
		parts = append(parts, "stopped: "+string(q.Stop))
	}
	return cmp.Or(strings.Join(parts, "; "), "no quota")
}

// ago is how long ago a time was; "-" is not known.
func ago(at, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return duration.HumanDuration(max(0, now.Sub(at)))
}
