package cost

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"berth.dev/berth/core/usage"
)

// Day is a day of the ledger: of UTC, as hours are that charges are rounded in.
const Day = 24 * time.Hour

// DayRow is what is charged in a day to one holder, or for GPUs without one, as finely as sums of days are kept.
type DayRow struct {
	Namespace, User, Queue       string // of pods; "" if What is not Held
	Product                      string
	What                         What
	Reason                       usage.Reason // if What is Stranded
	Currency                     string       // "" is that no price is known
	PartMillis, Unpriced, Micros int64        // as in Row
}

// DayRows adds entries up, in the order of their keys.
func DayRows(entries iter.Seq[*Entry]) []DayRow {
	sums := map[DayRow]*DayRow{}
	for e := range entries {
		row := e.row()
		key := DayRow{Namespace: e.Pod.Namespace, User: e.Pod.User, Queue: e.Pod.Queue, Product: e.Node.Product, What: row.What, Reason: row.Reason, Currency: row.Currency}
		sum := sums[key]
		if sum == nil {
			sum = new(key)
			sums[key] = sum
		}
		sum.PartMillis += row.PartMillis
		sum.Unpriced += row.Unpriced
		sum.Micros += row.Micros
	}
	out := make([]DayRow, 0, len(sums))
	for _, row := range sums {
		out = append(out, *row)
	}
	slices.SortFunc(out, func(a, b DayRow) int {
		return cmp.Or(cmp.Compare(a.What, b.What), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.User, b.User),
			cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Product, b.Product), cmp.Compare(a.Currency, b.Currency))
	})
	return out
}

// OfDays reports whether sums of days can be added up by it.
func (by By) OfDays() bool { return by == Namespace || by == User || by == Queue || by == Product }

// Period is a time from its beginning to its end.
type Period struct{ From, To time.Time }

// Split divides a time into the days that a list has, of which none is twice, and the periods between them.
func Split(from, to time.Time, days []time.Time) (whole []time.Time, rest []Period) {
	days = slices.SortedFunc(slices.Values(days), time.Time.Compare)
	for _, day := range days {
		if day.Before(from) || day.Add(Day).After(to) {
			continue
		}
		if from.Before(day) {
			rest = append(rest, Period{from, day})
		}
		whole = append(whole, day)
		from = day.Add(Day)
	}
	if from.Before(to) {
		rest = append(rest, Period{from, to})
	}
	return whole, rest
}
