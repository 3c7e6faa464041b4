package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth.dev/berth/core/cost"
)

// grace is how long after its end a day is closed: objects say late what has ended.
const grace = 10 * time.Minute

// CloseDay adds up the oldest day that has ended and is not closed, and writes its sums and a link of the chain. It reports whether
// there was one. A day is closed again if facts of it change later.
func (b *Book) CloseDay(ctx context.Context, now time.Time) (closed bool, err error) {
	began, err := b.Began(ctx)
	if err != nil || began.IsZero() {
		return false, err
	}
	list, err := b.Days(ctx)
	if err != nil {
		return false, err
	}
	is := map[int64]bool{}
	for _, day := range list {
		is[day.UnixMilli()] = true
	}
	for day := began.Truncate(cost.Day); !day.Add(cost.Day + grace).After(now); day = day.Add(cost.Day) {
		if !is[day.UnixMilli()] {
			return true, b.closeDay(ctx, day, now)
		}
	}
	return false, nil
}

// closeDay closes one day. Nothing may be written by others at the same time.
func (b *Book) closeDay(ctx context.Context, day, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	facts, err := b.Facts(ctx, day, day.Add(cost.Day))
	if err != nil {
		return err
	}
	charges := cost.Account(facts, day, day.Add(cost.Day))
	rows, workloads := cost.DayRows(charges), cost.Sum(charges, cost.Workload)
	return b.change(ctx, func(w *writer) {
		w.turned = true
		key := day.UnixMilli()
		w.sums(day, rows)
		w.workloads(day, workloads)
		why := "closed"
		w.one([]any{&why}, "SELECT why FROM reopened WHERE day = ?", key)
		w.link(Link{Day: day, At: now, Why: why, Facts: factsHash(facts, day), Sums: sumsHash(rows)})
		w.do("DELETE FROM reopened WHERE day = ?", key)
		w.do("INSERT INTO days VALUES (?)", key)
		if w.err == nil {
			b.closedTo = max(b.closedTo, day.Add(cost.Day).UnixMilli())
		}
	})
}

// reopen drops the sums of days that are closed and of which a time has other facts now, and of their months. to 0 is all days after from.
// Days whose facts are not kept stay as they are.
func (w *writer) reopen(from, to int64, why string) {
	const which = " FROM days WHERE day > ? AND (? = 0 OR day < ?)"
	w.turned = true
	since := max(from-cost.Day.Milliseconds(), w.kept-1)
	const months = " WHERE month IN (SELECT CAST(strftime('%s', day / 1000, 'unixepoch', 'start of month') AS INTEGER) * 1000" + which + ")"
	w.do("DELETE FROM month_sums"+months, since, to, to)
	w.do("DELETE FROM months"+months, since, to, to)
	w.do("INSERT OR REPLACE INTO reopened SELECT day, ?"+which, why, since, to, to)
	w.do("DELETE FROM sums WHERE day IN (SELECT day"+which+")", since, to, to)
	w.do("DELETE FROM day_workloads WHERE day IN (SELECT day"+which+")", since, to, to)
	w.do("DELETE"+which, since, to, to)
}

// lateWhy is why days are closed again whose facts have come late.
const lateWhy = "facts came late"

// changes reopens days that an interval changes which is written: those that it is in now and was not before, or the other
// way round. table and key are its table and the columns of its key but begins.
func (w *writer) changes(table, key string, keys []any, begins int64, ends any) {
	if begins >= w.closedTo || w.err != nil {
		return
	}
	var was sql.NullInt64
	end, _ := ends.(int64) // 0 goes on
	if !w.one([]any{&was}, "SELECT ends FROM "+table+" WHERE "+key+" AND begins = ?", append(keys, begins)...) {
		w.reopen(begins, end, lateWhy)
		return
	}
	switch old := was.Int64; {
	case old == end:
	case old == 0: // it went on
		w.reopen(end, 0, lateWhy)
	case end == 0:
		w.reopen(old, 0, lateWhy)
	default:
		w.reopen(min(old, end), max(old, end), lateWhy)
	}
}

// one reads a single row, and reports whether there is one.
func (w *writer) one(to []any, query string, args ...any) bool {
	if w.err != nil {
		return false
	}
	err := w.tx.QueryRowContext(w.ctx, query, args...).Scan(to...)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		w.err = err
	}
	return err == nil
}

// Days returns the beginnings of the days that are closed, in their order.
func (b *Book) Days(ctx context.Context) ([]time.Time, error) {
	r := reader{ctx: ctx, db: b.db}
	list := r.days()
	return list, b.read(r.err)
}

func (r *reader) days() (list []time.Time) {
	r.rows("SELECT day FROM days ORDER BY day", nil, func(scan func(...any) error) error {
		var day int64
		err := scan(&day)
		list = append(list, time.UnixMilli(day).UTC())
		return err
	})
	return list
}

// Rows adds up what is charged from an hour until a time: whole days from their sums if those have the name that is asked for, and
// the rest from facts.
func (b *Book) Rows(ctx context.Context, from, to time.Time, by cost.By) ([]cost.Row, error) {
	tx, err := b.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // a day that is closed now is counted once
	if err != nil {
		return nil, b.read(err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	r := reader{ctx: ctx, db: tx}
	var days, months []time.Time
	var workloads map[time.Time][]cost.Row
	from = from.Truncate(time.Hour)
	if by.OfDays() {
		days, months = r.days(), r.months()
	} else if by == cost.Workload {
		workloads = r.workloads(from, to)
		days = slices.SortedFunc(maps.Keys(workloads), time.Time.Compare)
	}
	var lists [][]cost.Row
	var facts []cost.Period
	months, rest := cost.SplitMonths(from, to, months)
	for _, month := range months {
		lists = append(lists, r.sums("month_sums", "month", month, cost.NextMonth(month), by))
	}
	for _, p := range rest {
		whole, between := cost.Split(p.From, p.To, days)
		if len(whole) > 0 && by != cost.Workload {
			lists = append(lists, r.sums("sums", "day", whole[0], whole[len(whole)-1].Add(cost.Day), by))
		}
		facts = append(facts, between...)
	}
	for _, day := range days {
		lists = append(lists, workloads[day])
	}
	for _, p := range facts {
		r.from, r.to = p.From.UnixMilli(), p.To.UnixMilli()
		lists = append(lists, cost.Sum(cost.Account(r.facts(), p.From, p.To), by))
	}
	if r.err != nil {
		return nil, b.read(r.err)
	}
	return cost.AddUp(lists...), nil
}

// sums adds up what is closed of a time: days, or months.
func (r *reader) sums(table, begins string, from, to time.Time, by cost.By) (rows []cost.Row) {
	name := map[cost.By]string{cost.Namespace: "namespace", cost.User: "user", cost.Queue: "queue", cost.Product: "product"}[by]
	query := "SELECT " + name + ", what, reason, currency, SUM(part_millis), SUM(unpriced), SUM(micros) FROM " + table + " WHERE " + begins + " >= ? AND " + begins + " < ? GROUP BY 1, 2, 3, 4"
	r.rows(query, []any{from.UnixMilli(), to.UnixMilli()}, func(scan func(...any) error) error {
		var row cost.Row
		err := scan(&row.Name, &row.What, &row.Reason, &row.Currency, &row.PartMillis, &row.Unpriced, &row.Micros)
		rows = append(rows, row)
		return err
	})
	return rows
}

// Remarks returns what there is to say of the prices of nodes in a time, by their names: that of the last price of each.
func (b *Book) Remarks(ctx context.Context, from, to time.Time) (list []cost.NodeRemark, err error) {
	r := reader{ctx: ctx, db: b.db}
	query := "SELECT n.name, p.source, p.remark, MAX(p.begins) FROM prices p JOIN nodes n ON n.uid = p.node WHERE p.begins < ? AND (p.ends IS NULL OR p.ends > ?) GROUP BY p.node ORDER BY 1"
	r.rows(query, []any{to.UnixMilli(), from.UnixMilli()}, func(scan func(...any) error) error {
		var row cost.NodeRemark
		var source string
		var last int64
		err := scan(&row.Name, &source, &row.Remark, &last)
		if row.Unpriced = source == cost.Unpriced; row.Remark != "" {
			list = append(list, row)
		}
		return err
	})
	return list, b.read(r.err)
}

// read is an error in reading.
func (b *Book) read(err error) error {
	if err != nil {
		return fmt.Errorf("read the ledger %s: %w", b.path, err)
	}
	return nil
}
