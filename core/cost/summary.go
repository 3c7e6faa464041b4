package cost

import (
	"cmp"
	"slices"
	"time"
)

// Target is the mean utilization of GPUs that are held from which on they are worth their price.
const Target = 0.7

// hoursOfMonth are those of an average month.
const hoursOfMonth = hoursOfYear / 12

// Summary is what became of the price of all nodes, in one currency. Amounts are in millionths.
type Summary struct {
	Currency                  string
	All, Held, Idle, Stranded int64 // All is the sum of the others
	HeldIdle                  int64 // of Held, what was for times in which holders did next to nothing
	// AMonth is what a month of 730 hours of Idle, Stranded, and HeldIdle costs if it goes on like this.
	AMonth int64
}

// Waste is what was paid for GPUs that did nothing.
func (s *Summary) Waste() int64 { return s.Idle + s.Stranded + s.HeldIdle }

// Summaries adds a report up, with what its holders did, by currency, the greatest first. use is of the same time.
func Summaries(r *Report, use *UseReport) []Summary {
	sums := map[string]*Summary{}
	get := func(currency string) *Summary {
		if sums[currency] == nil {
			sums[currency] = &Summary{Currency: currency}
		}
		return sums[currency]
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Currency == "" {
			continue
		}
		s := get(row.Currency)
		s.All += row.CostMicros
		switch row.What {
		case Idle.String():
			s.Idle += row.CostMicros
		case Stranded.String():
			s.Stranded += row.CostMicros
		default:
			s.Held += row.CostMicros
		}
	}
	for i := range use.Rows {
		if u := &use.Rows[i]; u.Currency != "" {
			get(u.Currency).HeldIdle += u.IdleMicros
		}
	}
	hours := r.Covered().Hours()
	out := make([]Summary, 0, len(sums))
	for _, s := range sums {
		if hours > 0 {
			s.AMonth = int64(float64(s.Waste()) * hoursOfMonth / hours)
		}
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Summary) int { return cmp.Or(cmp.Compare(b.All, a.All), cmp.Compare(a.Currency, b.Currency)) })
	return out
}

// Misses reports whether a holder used less of its GPUs than a target, by what is known of at least one GPU-hour.
func (r *UseReportRow) Misses(target float64) bool {
	return r.KnownGPUHours >= adviceHours && r.Utilization != nil && *r.Utilization < target
}

// Mean is the mean utilization over all rows, weighted by the GPU-hours of which it is known; nil is that it is of none.
func (r *UseReport) Mean() *float64 {
	used, known := 0.0, 0.0
	for i := range r.Rows {
		if u := &r.Rows[i]; u.Utilization != nil {
			used, known = used+*u.Utilization*u.KnownGPUHours, known+u.KnownGPUHours
		}
	}
	if known == 0 {
		return nil
	}
	return new(used / known)
}

// Covered is the time of a report that the ledger has.
func (r *Report) Covered() time.Duration { return max(0, r.To.Sub(latest(r.From, r.Began))) }
