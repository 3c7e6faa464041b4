package ledger

import (
	"context"
	"database/sql"
	"time"

	"berth.dev/berth/core/cost"
)

// Totals adds up all that was charged since the book began until a time, as finely as sums of days are kept, in the order of cost.DayRows. It reads months and
// days that are closed from their sums, and the rest from facts.
func (b *Book) Totals(ctx context.Context, to time.Time) ([]cost.DayRow, error) {
	began, err := b.Began(ctx)
	if err != nil || began.IsZero() {
		return nil, err
	}
	tx, err := b.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // a day that is closed now is counted once
	if err != nil {
		return nil, b.read(err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	r := reader{ctx: ctx, db: tx}
	days, months := r.days(), r.months()
	var lists [][]cost.DayRow
	months, rest := cost.SplitMonths(began.Truncate(time.Hour), to, months)
	for _, month := range months {
		lists = append(lists, r.totals("month_sums", "month", month, cost.NextMonth(month)))
	}
	var facts []cost.Period
	for _, p := range rest {
		whole, between := cost.Split(p.From, p.To, days)
		if len(whole) > 0 {
			lists = append(lists, r.totals("sums", "day", whole[0], whole[len(whole)-1].Add(cost.Day)))
		}
		facts = append(facts, between...)
	}
	for _, p := range facts {
		r.from, r.to = p.From.UnixMilli(), p.To.UnixMilli()
		lists = append(lists, cost.DayRows(cost.Account(r.facts(), p.From, p.To)))
	}
	if r.err != nil {
		return nil, b.read(r.err)
	}
	return cost.AddDayRows(lists...), nil
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
