package report

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"berth.dev/berth/cli/cost"
	"berth.dev/berth/core/audit"
	core "berth.dev/berth/core/cost"
	"berth.dev/berth/core/usage"
)

// figures are the numbers at the top of the page.
func figures(f *facts) (list []figure) {
	add := func(name, value, more string) { list = append(list, figure{name, value, more}) }
	for _, s := range core.Summaries(&f.cost, &f.users) {
		share := 0.0
		if s.All > 0 {
			share = 100 * float64(s.Waste()) / float64(s.All)
		}
		add("cost of all GPUs", cost.Money(s.All, s.Currency), "")
		add("of it for GPUs that did nothing", cost.Money(s.Waste(), s.Currency),
			fmt.Sprintf("%.0f%%: without a holder %s, stranded %s, held and idle %s", share, cost.Money(s.Idle, s.Currency), cost.Money(s.Stranded, s.Currency), cost.Money(s.HeldIdle, s.Currency)))
		add("that is, in a month", cost.Money(s.AMonth, s.Currency), "at the rate of this time, for 730 hours")
	}
	if mean := f.users.Mean(); mean != nil {
		add("mean use of held GPUs", percent(*mean), fmt.Sprintf("the target is %s", percent(f.target)))
	}
	if f.live != nil {
		if saved, parts, gpus := f.live.view.Saved(); parts > 0 {
			add("GPUs saved by sharing now", fmt.Sprint(saved), fmt.Sprintf("%d parts are on %d GPUs", parts, gpus))
		}
	}
	return list
}

func percent(ratio float64) string { return fmt.Sprintf("%.0f%%", 100*ratio) }

// used is a utilization for people.
func used(ratio *float64) string {
	if ratio == nil {
		return "not known"
	}
	return percent(*ratio)
}

// hours is an amount of GPU-hours.
func hours(n float64) string { return fmt.Sprintf("%.2f", n) }

// costs is what GPUs cost, by namespace, with what was idle and stranded.
func costs(r *core.Report) section {
	s := section{title: "Cost", note: "All rows together are what the nodes cost. Idle GPUs had no holder; stranded ones could not be had.", head: []string{"namespace", "GPU-hours", "cost"}}
	for i := range r.Rows {
		row := &r.Rows[i]
		name := cmp.Or(row.Name, "-")
		switch row.What {
		case "idle":
			name = "(idle)"
		case "stranded":
			name = "(stranded: " + usage.Reason(row.Reason).Text() + ")"
		}
		s.add(row.GPUHours, name, hours(row.GPUHours), cost.Money(row.CostMicros, row.Currency))
	}
	return s
}

// waste is what users held and did not use.
func waste(r *core.UseReport) section {
	s := section{
		title: "Held and not used", head: []string{"user", "GPU-hours", "idle", "cost", "cost of idle", "mean use"},
		note: fmt.Sprintf("Idle is the time in which a pod used less than a tenth of its GPUs, from when that had lasted for %s.", duration.HumanDuration(time.Duration(r.GraceSeconds)*time.Second)),
	}
	for i := range r.Rows {
		u := &r.Rows[i]
		s.add(u.IdleGPUHours, cmp.Or(u.Name, "-"), hours(u.GPUHours), hours(u.IdleGPUHours), cost.Money(u.CostMicros, u.Currency), cost.Money(u.IdleMicros, u.Currency), used(u.Utilization))
	}
	return s
}

// missed is which queues and workloads used less of what they held than the target.
func missed(f *facts) section {
	s := section{
		title: "Below the target", head: []string{"queue or workload", "GPU-hours", "mean use", "cost"},
		note: fmt.Sprintf("Held GPUs should have a mean use of %s. These had less, by what is known of at least one GPU-hour; the bar is what is missing.", percent(f.target)),
	}
	for _, of := range []struct {
		prefix string
		r      *core.UseReport
	}{{"queue ", &f.queues}, {"", &f.workloads}} {
		for i := range of.r.Rows {
			if u := &of.r.Rows[i]; u.Misses(f.target) && (of.prefix == "" || u.Name != "") {
				s.add((f.target-*u.Utilization)*u.KnownGPUHours, of.prefix+cmp.Or(u.Name, "-"), hours(u.GPUHours), used(u.Utilization), cost.Money(u.CostMicros, u.Currency))
			}
		}
	}
	return s
}

// sizes is which workloads could ask for less.
func sizes(r *core.UseReport) section {
	s := section{title: "Workloads that could ask for less", note: "By the most that they used in this time.", head: []string{"workload", "GPU-hours", "cost", "advice"}}
	for i := range r.Rows {
		if advice := core.Advice(&r.Rows[i]); advice != "" {
			u := &r.Rows[i]
			s.add(u.GPUHours, u.Name, hours(u.GPUHours), cost.Money(u.CostMicros, u.Currency), advice)
		}
	}
	return s
}

// waits is how long pods waited.
func waits(r *audit.Report) section {
	s := section{title: "Waiting", note: "From when a pod asked until it got its GPUs.", head: []string{"queue", "pods", "median", "9 of 10 at most", "longest", "waiting now"}}
	if r.Cut && len(r.Rows) > 0 {
		s.note += " There were too many pods to count all: these are those since " + day(r.Rows[0].At) + "."
	}
	for _, w := range audit.WaitsOf(r.Rows) {
		s.add(w.Median.Minutes(), cmp.Or(w.Queue, "-"), fmt.Sprint(w.Pods), duration.HumanDuration(w.Median), duration.HumanDuration(w.Most), duration.HumanDuration(w.Longest), fmt.Sprint(w.Waiting))
	}
	return s
}
