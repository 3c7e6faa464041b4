package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth.dev/berth/api"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/pool"
	"berth.dev/berth/kube/price"
	"berth.dev/berth/kube/request"
)

// Running is what is known of a cluster in use, beside its objects.
type Running struct {
	Busy       float64 // mean utilization ratio of the GPUs that are held, 0 to 1
	BusyKnown  bool
	Autoscaler string      // of nodes; "" is that none is seen
	Pools      []pool.Pool // of nodes that are declared to grow
	Rules      []string    // PrometheusRules with alerts on GPUs, namespace/name
}

// LeastBusy is the utilization of held GPUs that a cluster in production should have.
const LeastBusy = 0.70

// Production judges what a cluster needs before teams rely on its GPUs: eight points, each a finding, in a fixed order.
func Production(c Cluster, r *Running) []finding.Finding {
	e := look(c)
	return explained([]finding.Finding{
		e.served(), e.grows(r), e.spot(), e.limited(), e.used(r), e.shared(),
		ok("production-versioning", "versions of models are not looked at: Kubernetes does not know them; registries such as MLflow's do"),
		e.idle(r),
	})
}

// served judges whether every node with GPUs offers them.
func (e *examined) served() finding.Finding {
	const name = "production-plugin"
	if p := e.plugin(); p.Status != finding.OK {
		return finding.Finding{Name: name, Status: p.Status, Seen: p.Seen, Do: p.Do}
	}
	if len(e.hidden) > 0 {
		return fail(name, fmt.Sprintf("%s with GPUs %s no device plugin", count(len(e.hidden), "node"), verb(len(e.hidden), "has", "have")), "`berth doctor` names them, under unserved")
	}
	return ok(name, "every node with GPUs offers them (%s)", count(len(e.offering), "node"))
}

// grows judges whether nodes come and go with the work.
func (e *examined) grows(r *Running) finding.Finding {
	const name = "production-autoscaler"
	var quotas []string
	for i := range r.Pools {
		if q := r.Pools[i].Quota(); q != "" {
			quotas = append(quotas, r.Pools[i].Name+" "+q)
		}
	}
	say := ""
	if len(quotas) > 0 {
		say = "; the cloud's quotas in the region have to allow all nodes: " + strings.Join(quotas, "; ")
	}
	switch {
	case r.Autoscaler != "":
		return ok(name, "%s%s", r.Autoscaler, say)
	case len(r.Pools) > 0:
		return ok(name, "%s declared that can grow%s", count(len(r.Pools), "pool"), say)
	}
	return warn(name, "no autoscaler of nodes is seen, so GPU nodes cost as much when nothing runs", "let the pools of GPU nodes scale to zero, and declare them: docs/gpu-nodes.md")
}

// spot counts the nodes that are cheaper because the cloud may reclaim them.
func (e *examined) spot() finding.Finding {
	const name = "production-spot"
	spot := 0
	for i := range e.offering {
		if price.Node(e.byName[e.offering[i].Name], "", 0).Capacity == cost.Spot {
			spot++
		}
	}
	if spot == 0 {
		return warn(name, "no node with GPUs is spot capacity, by the labels of clouds", "use it for training that writes checkpoints; `berth report` shows what it would save")
	}
	return ok(name, "%d of %s with GPUs %s spot capacity", spot, count(len(e.offering), "node"), verb(spot, "is", "are"))
}

// limited judges whether the GPUs of each namespace with pods that ask for some are limited.
func (e *examined) limited() finding.Finding {
	const name = "production-quotas"
	if len(e.Queues) > 0 {
		list := e.queues()
		i := max(0, slices.IndexFunc(list, func(f finding.Finding) bool { return f.Status != finding.OK }))
		return finding.Finding{Name: name, Status: list[i].Status, Seen: list[i].Seen, Do: list[i].Do}
	}
	bounded, open := map[string]bool{}, map[string]bool{}
	for _, q := range e.Quotas {
		for line := range q.Spec.Hard {
			if of, found := strings.CutPrefix(string(line), "requests."); found && request.IsGPU(of) {
				bounded[q.Namespace] = true
			}
		}
	}
	for _, p := range e.Pods {
		if request.AsksForGPUs(p) && !bounded[p.Namespace] {
			open[p.Namespace] = true
		}
	}
	switch {
	case len(open) > 0:
		return warn(name, fmt.Sprintf("pods of %s may hold any number of GPUs: %s", count(len(open), "namespace"), few(slices.Sorted(maps.Keys(open)))),
			"limit them by a ResourceQuota (requests."+api.ResourceGPU+") or a Queue: docs/queues.md")
	case len(bounded) == 0:
		return warn(name, "no namespace has a limit of GPUs", "limit them by a ResourceQuota (requests."+api.ResourceGPU+") or a Queue: docs/queues.md")
	}
	return ok(name, "%s %s a quota of GPUs, and no other asks for some", count(len(bounded), "namespace"), verb(len(bounded), "has", "have"))
}

// used says how busy the GPUs are that pods hold.
func (e *examined) used(r *Running) finding.Finding {
	const name = "production-utilization"
	held := int64(0)
	for i := range e.offering {
		held += e.offering[i].Held
	}
	switch {
	case held == 0:
		return ok(name, "no GPU is held, so there is nothing to be busy")
	case !r.BusyKnown:
		return warn(name, "how busy the GPUs are is not known: no exporter answers", "install dcgm-exporter, or Berth's agent: docs/metrics.md")
	case r.Busy < LeastBusy:
		return warn(name, fmt.Sprintf("the GPUs that pods hold are %.0f %% busy, less than %.0f %%", 100*r.Busy, 100*LeastBusy), "`berth idle` and `berth report` show which pods could do with less")
	}
	return ok(name, "the GPUs that pods hold are %.0f %% busy", 100*r.Busy)
}

// shared judges whether small pods can have less than a GPU.
func (e *examined) shared() finding.Finding {
	const name = "production-sharing"
	var ways []string
	for i := range e.offering {
		n := &e.offering[i]
		way := n.Sharing
		if q := e.byName[n.Name].Status.Allocatable[api.ResourceGPUMemory]; way == "" && !q.IsZero() {
			way = "shares by memory"
		}
		if way != "" && !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
	}
	if len(ways) == 0 {
		return warn(name, "every device is a whole GPU, also for pods that need a part", "docs/tasks/share-a-gpu.md: by memory, time-slicing, or MIG")
	}
	slices.Sort(ways)
	return ok(name, "%s", strings.Join(ways, ", "))
}

// idle judges whether someone learns of GPUs that are held and not used.
func (e *examined) idle(r *Running) finding.Finding {
	const name = "production-idle"
	if len(r.Rules) == 0 {
		return warn(name, "nothing reports GPUs that are held for hours and not used", "run `berth idle --nudge` each hour, or add an alert on DCGM_FI_DEV_GPU_UTIL: docs/metrics.md")
	}
	return ok(name, "alerts on GPUs in %s", few(r.Rules))
}
