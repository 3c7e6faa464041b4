package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/request"
)

// plugin says who serves the GPUs to the kubelets.
func (e *examined) plugin() finding.Finding {
	const name = "device-plugin"
	parts := e.of(plugin)
	byAgent, unknown := 0, 0
	for i := range e.offering {
		n := e.byName[e.offering[i].Name]
		switch {
		case slices.ContainsFunc(parts, func(p *part) bool { _, on := slices.BinarySearch(p.nodes, n.Name); return on }):
			// It is in the list of parts.
		case n.Labels[api.LabelAllocation] != "":
			byAgent++
		case !simulated(n) && gives(n):
			unknown++
		}
	}
	more := ""
	if byAgent > 0 {
		more += fmt.Sprintf("; Berth's agent without a DaemonSet on %s", count(byAgent, "node"))
	}
	if unknown > 0 {
		more += fmt.Sprintf("; something of the node itself, as EKS Auto Mode and Bottlerocket have it, on %s", count(unknown, "node"))
	}
	if n := stand(parts); n > 1 {
		more += "; the simulated ones stand for one plugin: on real nodes only one may run"
	}
	switch late := late(parts); {
	case e.Unread["daemonsets"] != "":
		return warn(name, "who serves the GPUs is not known: daemonsets cannot be listed", "use an account that may list them")
	case len(parts) == 0 && len(e.offering) == 0 && len(e.dra.Devices) > 0:
		return ok(name, "none; GPUs are offered to claims")
	case len(parts) == 0 && len(e.offering) == 0:
		return fail(name, "none is found, and no node offers GPUs", "install one: Berth's agent (docs/node.md), NVIDIA's plugin, or the GPU Operator")
	case len(parts) == 0 && more == "":
		return ok(name, "none; the GPUs are simulated")
	case len(parts) == 0:
		return ok(name, "no DaemonSet that is known; %s", strings.TrimPrefix(more, "; "))
	case len(parts) == 1 && parts[0].who == berthsAgent && parts[0].wanted() == 0 && len(e.hidden) == 0:
		return warn(name, listed(parts)+more+": no node has a label that says that it has GPUs",
			"label the nodes that have them: kubectl label node NODE "+api.LabelAgent+"=true")
	case len(late) > 0:
		return warn(name, listed(parts)+more, "see why it is not ready: kubectl describe daemonset -n "+late[0].set.Namespace+" "+late[0].set.Name)
	}
	return ok(name, "%s%s", listed(parts), more)
}

// stand counts the DaemonSets that stand for a plugin in berth up, and have nodes.
func stand(parts []*part) int {
	n := 0
	for _, p := range parts {
		if p.simulated && len(p.nodes) > 0 {
			n++
		}
	}
	return n
}

// gives reports whether a pod could get a GPU of a node, were all of them free.
func gives(n *v1.Node) bool {
	for name, q := range n.Status.Allocatable {
		if request.IsGPU(string(name)) && !q.IsZero() {
			return true
		}
	}
	return false
}

// drivers says which drivers the nodes run, as the labels tell.
func (e *examined) drivers() finding.Finding {
	const name = "drivers"
	parts := e.of(driver)
	by, unknown := map[string]int{}, 0
	for i := range e.offering {
		n := e.byName[e.offering[i].Name]
		if d := driverOf(n); d != "" {
			text := d
			if c := cudaOf(n); c != "" {
				text += " (CUDA " + c + ")"
			}
			by[text]++
			continue
		}
		unknown++
	}
	var texts []string
	for _, v := range slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b)) }) {
		texts = append(texts, fmt.Sprintf("%s on %s", v, count(by[v], "node")))
	}
	if len(texts) > mostNames {
		texts = append(texts[:mostNames:mostNames], fmt.Sprintf("%d other versions", len(texts)-mostNames))
	}
	if unknown > 0 {
		texts = append(texts, fmt.Sprintf("unknown on %s: no label tells it, as GPU Feature Discovery's and Berth's agent's do", count(unknown, "node")))
	}
	if len(parts) > 0 {
		texts = append(texts, listed(parts))
	}
	switch late := late(parts); {
	case len(texts) == 0 && len(e.dra.Devices) > 0:
		return ok(name, "unknown; the DRA driver has found GPUs on %s", count(len(e.dra.Devices), "node"))
	case len(texts) == 0:
		return fail(name, "none is found: no node offers GPUs, and no DaemonSet brings a driver", "install NVIDIA's driver on the nodes with GPUs; then run `berth doctor node` there")
	case len(late) > 0:
		return warn(name, strings.Join(texts, "; "), "see why it is not ready: kubectl logs -n "+late[0].set.Namespace+" daemonset/"+late[0].set.Name)
	case len(e.offering) == 0:
		return warn(name, strings.Join(texts, "; "), "no node offers GPUs yet: run `berth doctor node` on one that has some")
	}
	return ok(name, "%s", strings.Join(texts, "; "))
}

// unheard is after how long a pod that no scheduler has looked at is one that none
// looks at.
const unheard = time.Minute

// scheduling says who places pods, and finds pods that wait for a scheduler that
// nobody runs.
func (e *examined) scheduling() finding.Finding {
	const name = "scheduling"
	waiting, oldest := map[string]int{}, ""
	for _, p := range e.Pods {
		if p.Spec.NodeName == "" && request.Of(p) != nil && e.Now.Sub(p.CreationTimestamp.Time) > unheard &&
			!slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled }) {
			waiting[cmp.Or(p.Spec.SchedulerName, v1.DefaultSchedulerName)]++
		}
	}
	if len(waiting) > 0 {
		var texts []string
		for _, s := range sortedKeys(waiting) {
			texts = append(texts, fmt.Sprintf("%s for scheduler %s", count(waiting[s], "pod"), s))
			oldest = s
		}
		return fail(name, "no scheduler handles these pending GPU pods: "+strings.Join(texts, ", "),
			fmt.Sprintf("start the scheduler %s, or name one that runs in spec.schedulerName", oldest))
	}
	var who []string
	for _, l := range e.Leases {
		switch {
		case !e.fresh(l):
		case l.Name == "berth-scheduler":
			who = append(who, "Berth's scheduler leads (lease kube-system/berth-scheduler)")
		case l.Name == "kube-scheduler":
			who = append(who, "kube-scheduler leads (lease kube-system/kube-scheduler)")
		}
	}
	if e.Guarded && !slices.ContainsFunc(who, func(s string) bool { return strings.HasPrefix(s, "Berth") }) {
		who = append(who, "Berth's scheduler, by its admission policies")
	}
	slices.Sort(who)
	if len(who) > 0 {
		return ok(name, "%s", strings.Join(who, "; "))
	}
	if slices.ContainsFunc(e.Pods, func(p *v1.Pod) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled })
	}) {
		return ok(name, "pods are placed, by a scheduler that shows no lease")
	}
	return warn(name, "no scheduler is seen: no lease of one that leads, no pod that one has looked at", "see that kube-scheduler or `berth scheduler` runs")
}

// fresh reports whether the holder of a lease still renews it.
func (e *examined) fresh(l *coordinationv1.Lease) bool {
	s := &l.Spec
	return s.HolderIdentity != nil && *s.HolderIdentity != "" && s.RenewTime != nil && s.LeaseDurationSeconds != nil &&
		e.Now.Before(s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds)*time.Second))
}
