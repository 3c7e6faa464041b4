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

// key is a row without its amounts.
func (d DayRow) key() DayRow {
	d.PartMillis, d.Unpriced, d.Micros = 0, 0, 0
	return d
}

// DayRows adds entries up, in the order of their keys.
func DayRows(entries iter.Seq[*Entry]) []DayRow {
	return sumDayRows(func(yield func(*DayRow) bool) {
		for e := range entries {
			row := e.row()
			if !yield(&DayRow{
				Namespace: e.Pod.Namespace, User: e.Pod.User, Queue: e.Pod.Queue, Product: e.Node.Product, What: row.What, Reason: row.Reason, Currency: row.Currency,
				PartMillis: row.PartMillis, Unpriced: row.Unpriced, Micros: row.Micros,
			}) {
				return
			}
		}
	})
}

// AddDayRows adds rows up that were added up apart, in the order of DayRows.
func AddDayRows(lists ...[]DayRow) []DayRow {
	return sumDayRows(func(yield func(*DayRow) bool) {
		for _, list := range lists {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	})
}

func sumDayRows(rows iter.Seq[*DayRow]) []DayRow {
	sums := map[DayRow]*DayRow{}
	for row := range rows {
		key := row.key()
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
	return split(from, to, days, func(day time.Time) time.Time { return day.Add(Day) })
}

// SplitMonths divides a time as Split does, into months.
func SplitMonths(from, to time.Time, months []time.Time) (whole []time.Time, rest []Period) {
	return split(from, to, months, NextMonth)
}

func split(from, to time.Time, list []time.Time, end func(time.Time) time.Time) (whole []time.Time, rest []Period) {
	list = slices.SortedFunc(slices.Values(list), time.Time.Compare)
	for _, one := range list {
		if one.Before(from) || end(one).After(to) {
			continue
		}
		if from.Before(one) {
			rest = append(rest, Period{from, one})
		}
		whole = append(whole, one)
		from = end(one)
	}
	if from.Before(to) {
		rest = append(rest, Period{from, to})
	}
	return whole, rest
}

// MonthOf is the beginning of the month of a time, and NextMonth that of the one after it: of UTC, as days are.
func MonthOf(at time.Time) time.Time {
	at = at.UTC()
	return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// NextMonth is the beginning of the month after that of a time.
func NextMonth(at time.Time) time.Time { return MonthOf(at).AddDate(0, 1, 0) }
