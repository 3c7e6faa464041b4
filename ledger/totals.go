package ledger

import (
	"context"
	"database/sql"
	"time"

	"berth.dev/berth/core/cost"
)

// closedSums is what is closed, as it was after so many changes of it.
type closedSums struct {
	turned       int64
	to           time.Time // they were asked for until then
	days, months []time.Time
	rows         []cost.DayRow // their sum
}

// Totals adds up all that was charged since the book began until a time, as finely as sums of days are kept, in the order of cost.DayRows. It
// remembers closed days and months from one call to the next, so it reads only facts of the time after them.
func (b *Book) Totals(ctx context.Context, to time.Time) ([]cost.DayRow, error) {
	began, err := b.Began(ctx)
	if err != nil || began.IsZero() {
		return nil, err
	}
	turned := b.turned.Load()                                    // before the transaction: a change in between is read again the next time
	tx, err := b.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // a day that is closed now is counted once
	if err != nil {
		return nil, b.read(err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	r := reader{ctx: ctx, db: tx}
	sums := b.closed.Load()
	from := began.Truncate(time.Hour)
	if sums == nil || sums.turned != turned || to.Before(sums.to) {
		sums = r.closed(from, to)
		sums.turned = turned
	}
	lists := [][]cost.DayRow{sums.rows}
	_, rest := cost.SplitMonths(from, to, sums.months)
	for _, p := range rest {
		_, facts := cost.Split(p.From, p.To, sums.days)
		for _, p := range facts {
			r.from, r.to = p.From.UnixMilli(), p.To.UnixMilli()
			lists = append(lists, cost.DayRows(cost.Account(r.facts(), p.From, p.To)))
		}
	}
	if r.err != nil {
		return nil, b.read(r.err)
	}
	b.closed.Store(sums)
	return cost.AddDayRows(lists...), nil
}

// closed adds up the months and days of a time that are closed.
func (r *reader) closed(from, to time.Time) *closedSums {
	s := &closedSums{to: to}
	var lists [][]cost.DayRow
	days := r.days()
	months, rest := cost.SplitMonths(from, to, r.months())
	s.months = months
	for _, month := range months {
		lists = append(lists, r.totals("month_sums", "month", month, cost.NextMonth(month)))
	}
	for _, p := range rest {
		whole, _ := cost.Split(p.From, p.To, days)
		s.days = append(s.days, whole...)
		if len(whole) > 0 {
			lists = append(lists, r.totals("sums", "day", whole[0], whole[len(whole)-1].Add(cost.Day)))
		}
	}
	s.rows = cost.AddDayRows(lists...)
	return s
}

// totals adds up what is closed of a time: days, or months.
func (r *reader) totals(table, begins string, from, to time.Time) (rows []cost.DayRow) {
	query := "SELECT namespace, user, queue, product, what, reason, currency, SUM(part_millis), SUM(unpriced), SUM(micros) FROM " + table +
		" WHERE " + begins + " >= ? AND " + begins + " < ? GROUP BY 1, 2, 3, 4, 5, 6, 7"
	r.rows(query, []any{from.UnixMilli(), to.UnixMilli()}, func(scan func(...any) error) error {
		var d cost.DayRow
		err := scan(&d.Namespace, &d.User, &d.Queue, &d.Product, &d.What, &d.Reason, &d.Currency, &d.PartMillis, &d.Unpriced, &d.Micros)
		rows = append(rows, d)
		return err
	})
	return rows
}
