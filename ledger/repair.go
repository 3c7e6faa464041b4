package ledger

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"berth.dev/berth/core/cost"
)

// Lost returns the days whose sums were lost as the file was damaged, in their order: they are to be closed again, from the facts that are left.
func (b *Book) Lost(ctx context.Context) (days []time.Time, err error) {
	r := reader{ctx: ctx, db: b.db}
	r.rows("SELECT day FROM reopened WHERE why = ? ORDER BY day", []any{damagedWhy}, func(scan func(...any) error) error {
		var day int64
		err := scan(&day)
		days = append(days, time.UnixMilli(day).UTC())
		return err
	})
	return days, b.read(r.err)
}

// Repair restores the sums of lost days, from copies whose rows are those of the last link of their day. It returns
// how many it has restored; the rest stays lost. It is called before such days are closed again.
func (b *Book) Repair(ctx context.Context, copies []Copy) (days int, err error) {
	lost, err := b.Lost(ctx)
	if err != nil || len(lost) == 0 {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	last, err := b.lastLinks(ctx)
	if err != nil {
		return 0, err
	}
	var whole []Copy
	for _, c := range copies {
		link := last[c.Day.UnixMilli()]
		if link != nil && bytes.Equal(link.Sums, sumsHash(c.Rows)) && slices.ContainsFunc(lost, c.Day.Equal) {
			whole = append(whole, c)
		}
	}
	losses, err := b.Losses(ctx, time.Time{}, time.Now())
	if err != nil {
		return 0, err
	}
	err = b.change(ctx, func(w *writer) {
		w.turned = true
		for _, c := range whole {
			key := c.Day.UnixMilli()
			w.do("DELETE FROM sums WHERE day = ?", key)
			w.sums(c.Day, c.Rows)
			w.do("DELETE FROM reopened WHERE day = ?", key)
			w.do("INSERT OR IGNORE INTO days VALUES (?)", key)
			losses = mended(losses, c.Day)
		}
		w.do("DELETE FROM losses")
		for i := range losses {
			w.lose(&losses[i])
		}
	})
	return len(whole), err
}

// mended are losses of which those of facts say that the sums of a day are whole.
func mended(losses []cost.Loss, day time.Time) (out []cost.Loss) {
	next := day.Add(cost.Day)
	for _, l := range losses {
		facts, some := strings.CutPrefix(l.What, someOf)
		if l.Node != "" || !some || !l.In(day, next) || !ofFacts(facts) {
			out = append(out, l)
			continue
		}
		before, within, after := l, l, l
		before.To, within.From, within.To, after.From = day, latest(l.From, day), earliest(l.To, next), next
		within.What += sumsAreWhole
		for _, part := range []cost.Loss{before, within, after} {
			if part.From.Before(part.To) {
				out = append(out, part)
			}
		}
	}
	return out
}

// ofFacts reports whether a list names nothing but what factTables say.
func ofFacts(list string) bool {
	for says := range strings.SplitSeq(list, ", ") {
		if !slices.ContainsFunc(factTables, func(f struct{ name, says string }) bool { return f.says == says }) {
			return false
		}
	}
	return true
}
