package report

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/duration"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/cost"
	core "berth.dev/berth/core/cost"
)

// mostNotable is how many holders are listed for each reason.
const mostNotable = 5

// notables are the holders to ask.
func notables(f *facts) section {
	s := section{
		title: "Holders to ask", head: []string{"workload", "user", "GPUs", "since", "cost", "why"},
		note: "Holders that do nothing now, workloads whose pods never used all that they ask for, and those that have held for more than a day: the first five of each.",
	}
	for _, n := range core.Notables(&f.idle, &f.workloads, mostNotable) {
		long, why := "-", string(n.Why)
		if n.For > 0 {
			long = duration.HumanDuration(n.For)
		}
		if n.Detail != "" {
			why += ": " + n.Detail
		}
		s.add(float64(n.Micros)/1e6, n.Workload, cmp.Or(n.User, "-"), fmt.Sprintf("%.4g", n.GPUs), long, cost.Money(n.Micros, n.Currency), why)
	}
	return s
}

// notebooks is what each notebook asked for and used.
func notebooks(r *core.UseReport) section {
	s := section{
		title: "Notebooks", note: "What each notebook asked for, and what it used of that in this time.",
		head: []string{"notebook", "user", "asked", "busy at most", "mean use", "idle GPU-hours", "cost"},
	}
	for i := range r.Rows {
		u := &r.Rows[i]
		parts := strings.SplitN(u.Name, "/", 3)
		if len(parts) != 3 || parts[1] != kubeflow.Kind {
			continue
		}
		busy := "not known"
		if u.KnownGPUHours > 0 {
			busy = fmt.Sprint(u.BusyOfAPod)
		}
		s.add(u.IdleGPUHours, parts[0]+"/"+parts[2], cmp.Or(u.User, "-"), fmt.Sprintf("%.4g", u.GPUsOfAPod), busy, used(u.Utilization), hours(u.IdleGPUHours), cost.Money(u.CostMicros, u.Currency))
	}
	return s
}
