package ledger

import (
	"context"
	"time"

	"berth.dev/berth/core/cost"
)

// Kept returns from when on the book has facts; zero is that it has all. Before that time it has the sums of days.
func (b *Book) Kept() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept == 0 {
		return time.Time{}
	}
	return time.UnixMilli(b.kept).UTC()
}

// Forget removes the facts of the days before a time, and what is known of them beside: use and records. Sums and links of the chain stay.
// Only days are forgotten that are closed, as are all before them; an interval that ends later stays whole.
func (b *Book) Forget(ctx context.Context, before time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	until, err := b.closedUntil(ctx, before)
	if err != nil || until <= b.kept {
		return err
	}
	err = b.change(ctx, func(w *writer) {
		w.do("DELETE FROM pods WHERE uid IN (SELECT pod FROM holds WHERE ends <= ?1) AND NOT EXISTS (SELECT 1 FROM holds h WHERE h.pod = uid AND (h.ends IS NULL OR h.ends > ?1))", until)
		w.do("DELETE FROM pod_labels WHERE pod IN (SELECT pod FROM holds WHERE ends <= ?1) AND pod NOT IN (SELECT uid FROM pods)", until)
		w.do("DELETE FROM askers WHERE uid IN (SELECT subject FROM records WHERE at < ? AND act IN ('released', 'deleted'))", until)
		for _, table := range []string{"holds", "ups", "strands", "prices", "lows", "uses"} {
			w.do("DELETE FROM "+table+" WHERE ends <= ?", until)
		}
		w.do("DELETE FROM records WHERE at < ?", until)
		w.do("DELETE FROM day_workloads WHERE day < ?", until)
		w.do("DELETE FROM nodes WHERE uid NOT IN (SELECT node FROM ups)")
		w.do("DELETE FROM losses WHERE ends <= ?", until)
		w.do("INSERT OR REPLACE INTO kept VALUES (1, ?)", until)
	})
	if err == nil {
		b.kept = until
	}
	return err
}

// closedUntil is the end of the last day before a time that is closed, as are all before it; 0 is that there is none.
func (b *Book) closedUntil(ctx context.Context, before time.Time) (int64, error) {
	began, err := b.Began(ctx)
	if err != nil || began.IsZero() {
		return 0, err
	}
	list, err := b.Days(ctx)
	if err != nil {
		return 0, err
	}
	is := map[int64]bool{}
	for _, day := range list {
		is[day.UnixMilli()] = true
	}
	first := began.Truncate(cost.Day)
	day := first
	for is[day.UnixMilli()] && !day.Add(cost.Day).After(before) {
		day = day.Add(cost.Day)
	}
	if day.Equal(first) {
		return 0, nil
	}
	return day.UnixMilli(), nil
}

// CloseMonths adds up the months of which all days are closed, so a report by month reads one sum of each name.
func (b *Book) CloseMonths(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	days, err := b.Days(ctx)
	if err != nil {
		return err
	}
	closed := map[int64]int{}
	for _, day := range days {
		closed[cost.MonthOf(day).UnixMilli()]++
	}
	r := reader{ctx: ctx, db: b.db}
	for _, month := range r.months() {
		delete(closed, month.UnixMilli())
	}
	if r.err != nil {
		return b.read(r.err)
	}
	return b.change(ctx, func(w *writer) {
		w.turned = true
		for key, n := range closed {
			month := time.UnixMilli(key).UTC()
			next := cost.NextMonth(month)
			if time.Duration(n)*cost.Day != next.Sub(month) {
				continue
			}
			w.do("INSERT INTO month_sums SELECT ?1, namespace, user, queue, product, what, reason, currency, SUM(part_millis), SUM(unpriced), SUM(micros) FROM sums WHERE day >= ?1 AND day < ?2 GROUP BY 2, 3, 4, 5, 6, 7, 8", key, next.UnixMilli())
			w.do("INSERT INTO months VALUES (?)", key)
		}
	})
}

// months reads which months are added up, in their order.
func (r *reader) months() (list []time.Time) {
	r.rows("SELECT month FROM months ORDER BY month", nil, func(scan func(...any) error) error {
		var month int64
		err := scan(&month)
		list = append(list, time.UnixMilli(month).UTC())
		return err
	})
	return list
}
