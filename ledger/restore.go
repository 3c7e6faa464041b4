package ledger

import (
	"context"
	"database/sql"
	"encoding/hex"
	"slices"
	"time"

	"berth.dev/berth/core/cost"
)

// Copy is what is kept of a closed day outside of the book.
type Copy struct {
	Day  time.Time
	Rows []cost.DayRow // in the order of cost.DayRows
	Sums string        // the hash of the rows that the day was closed with, as SumsHash returns it
}

// SumsHash is the hash of the sums of a day, as text.
func SumsHash(rows []cost.DayRow) string { return hex.EncodeToString(sumsHash(rows)) }

const (
	restoredWhy = "restored from its GPUUsageDays"
	notInCopies = "some of what was charged: the ledger is gone, and the GPUUsageDays of the day are not whole"
	notCopied   = "what pods held that are gone: the ledger is gone, and the day has no GPUUsageDays"
)

// Restore fills an empty book with the sums of days, each of which is there once. The book then goes on as if its writer had been away since the
// end of the last of them, and has no facts of the time before. Days whose rows are not those that they were closed with, and the time
// that has no copies, are losses. A book that is not empty stays as it is. It returns how many days it has restored.
func (b *Book) Restore(ctx context.Context, copies []Copy, now time.Time) (days int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	began, err := b.Began(ctx)
	if err != nil || !began.IsZero() {
		return 0, err
	}
	copies = slices.SortedFunc(slices.Values(copies), func(x, y Copy) int { return x.Day.Compare(y.Day) })
	copies = slices.DeleteFunc(copies, func(c Copy) bool { return c.Day.Add(cost.Day).After(now) }) // a day that goes on is not closed
	if len(copies) == 0 {
		return 0, nil
	}
	first, last := copies[0].Day, copies[len(copies)-1].Day.Add(cost.Day)
	err = b.change(ctx, func(w *writer) {
		w.turned = true
		w.do("INSERT INTO alive VALUES (1, ?, ?)", first.UnixMilli(), last.UnixMilli())
		w.do("INSERT OR REPLACE INTO kept VALUES (1, ?)", last.UnixMilli())
		next := first
		for i := range copies {
			c := &copies[i]
			w.lose(&cost.Loss{From: next, To: c.Day, At: now, What: notCopied})
			next = c.Day.Add(cost.Day)
			if SumsHash(c.Rows) != c.Sums {
				w.lose(&cost.Loss{From: c.Day, To: next, At: now, What: notInCopies})
			}
			w.sums(c.Day, c.Rows)
			w.link(Link{Day: c.Day, At: now, Why: restoredWhy, Facts: []byte{}, Sums: sumsHash(c.Rows)})
			w.do("INSERT INTO days VALUES (?)", c.Day.UnixMilli())
		}
		w.lose(&cost.Loss{From: next, To: now, At: now, What: notCopied})
	})
	if err == nil {
		b.closedTo, b.kept = last.UnixMilli(), last.UnixMilli()
	}
	return len(copies), err
}

// lose writes down what is lost of a time, if it is one.
func (w *writer) lose(l *cost.Loss) {
	if l.From.Before(l.To) {
		begins := sql.NullInt64{Int64: l.From.UnixMilli(), Valid: !l.From.IsZero()}
		w.do("INSERT INTO losses (at, begins, ends, node, what) VALUES (?, ?, ?, ?, ?)", l.At.UnixMilli(), begins, l.To.UnixMilli(), l.Node, l.What)
	}
}

// sums writes the sums of a day.
func (w *writer) sums(day time.Time, rows []cost.DayRow) {
	for i := range rows {
		r := &rows[i]
		w.do("INSERT OR REPLACE INTO sums VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", day.UnixMilli(), r.Namespace, r.User, r.Queue, r.Product, int(r.What), string(r.Reason), r.Currency, r.PartMillis, r.Unpriced, r.Micros)
	}
}
