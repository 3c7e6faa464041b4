package cost

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Notable is a holder of GPUs to ask about it.
type Notable struct {
	Why      NotableWhy
	Workload string // namespace/kind/name
	User     string // "" is not known, or several
	GPUs     float64
	For      time.Duration // how long it has held, or been idle; 0 for over-askers
	Detail   string        // for people; "" is nothing
	Micros   int64         // what that has cost
	Currency string        // "" is that no price is known
}

// NotableWhy is why a holder is notable.
type NotableWhy string

// The reasons, in their order.
const (
	NotableIdle   NotableWhy = "idle now"
	NotableAsks   NotableWhy = "asks for more than it uses"
	NotableLength NotableWhy = "holds for long"
)

// longHours is how long a holder has held before that is notable.
const longHours = 24

// Notables lists those who hold GPUs and do nothing now, those who ask for more than they ever used, and those who hold for more than a day: at
// most so many of each, those first that cost or hold the most. workloads are by Workload.
func Notables(idle *IdleReport, workloads *UseReport, most int) (out []Notable) {
	for i := range idle.Rows[:min(most, len(idle.Rows))] {
		r := &idle.Rows[i]
		out = append(out, Notable{
			Why: NotableIdle, Workload: r.Namespace + "/" + r.Kind + "/" + r.Owner, User: r.User, GPUs: r.GPUs, For: idle.Now.Sub(r.Since), Micros: r.CostMicros, Currency: r.Currency,
		})
	}
	var asks, long []*UseReportRow
	for i := range workloads.Rows {
		r := &workloads.Rows[i]
		if OverAsks(r) {
			asks = append(asks, r)
		}
		if r.LongestHours >= longHours {
			long = append(long, r)
		}
	}
	unused := func(r *UseReportRow) float64 {
		return r.GPUHours * (r.GPUsOfAPod - float64(r.BusyOfAPod)) / r.GPUsOfAPod
	}
	slices.SortStableFunc(asks, func(a, b *UseReportRow) int { return cmp.Compare(unused(b), unused(a)) })
	slices.SortStableFunc(long, func(a, b *UseReportRow) int { return cmp.Compare(b.LongestHours, a.LongestHours) })
	for _, r := range asks[:min(most, len(asks))] {
		n := r.notable(NotableAsks)
		n.Detail = fmt.Sprintf("of %.4g in a pod, at most %d were busy", r.GPUsOfAPod, r.BusyOfAPod)
		out = append(out, n)
	}
	for _, r := range long[:min(most, len(long))] {
		n := r.notable(NotableLength)
		n.For = time.Duration(r.LongestHours * float64(hour))
		out = append(out, n)
	}
	return out
}

func (r *UseReportRow) notable(why NotableWhy) Notable {
	return Notable{Why: why, Workload: r.Name, User: r.User, GPUs: r.GPUsOfAPod, Micros: r.CostMicros, Currency: r.Currency}
}

// OverAsks reports whether the pods of a workload ask for more GPUs than they ever used at once, by what is known of at least one
// GPU-hour. Of GPUs that others share nothing is known.
func OverAsks(r *UseReportRow) bool {
	return r.KnownGPUHours >= adviceHours && r.Utilization != nil && !r.Shared && r.GPUsOfAPod >= 1 && float64(r.BusyOfAPod) < r.GPUsOfAPod
}
