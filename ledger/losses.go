package ledger

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth.dev/berth/core/cost"
)

// damagedWhy is why a day is closed again whose sums were lost.
const damagedWhy = "the file was damaged"

// What is said of lost facts begins, and ends where the sums of the day are there.
const (
	someOf       = "some of "
	sumsAreWhole = "; the sums of the day by namespace, user, queue, and product are whole"
)

// factTables are what charges are computed from, and what each of them says.
var factTables = []struct{ name, says string }{
	{"holds", "who held GPUs"}, {"ups", "when nodes were there"}, {"strands", "which GPUs were stranded"}, {"prices", "prices"}, {"pods", "whose pods were"}, {"nodes", "names of nodes"}, {"pod_labels", "labels of pods"}, {"label_sets", "labels of pods"},
}

// loser finds out what is not in a book that was salvaged, and writes it down there.
type loser struct {
	book   *Book
	ctx    context.Context //nolint:containedctx // it lives for one call
	tables []*table
	now    time.Time
	out    []cost.Loss
}

func (l *loser) table(name string) *table {
	for _, t := range l.tables {
		if t.name == name {
			return t
		}
	}
	return nil
}

func (l *loser) add(from, to time.Time, node, what string) {
	if from.Before(to) {
		l.out = append(l.out, cost.Loss{From: from, To: to, At: l.now, Node: node, What: what})
	}
}

// find returns what is lost, in the order of time.
func (l *loser) find() ([]cost.Loss, error) {
	began, err := l.began()
	if err != nil {
		return nil, err
	}
	if err := l.book.prepare(l.ctx); err != nil { // which reads since when facts are kept
		return nil, err
	}
	if began.IsZero() {
		if slices.ContainsFunc(l.tables, (*table).lost) {
			l.out = append(l.out, cost.Loss{To: l.now, At: l.now, What: "all that the ledger had"})
		}
		return l.out, l.write()
	}
	if err := l.days(began); err != nil {
		return nil, err
	}
	if err := l.holders(); err != nil {
		return nil, err
	}
	l.beside(began)
	slices.SortStableFunc(l.out, func(a, b cost.Loss) int { return a.From.Compare(b.From) })
	return l.out, l.write()
}

// began is when the book began: zero is that nothing of it is left. If it does not say so any longer, it says what facts do.
func (l *loser) began() (time.Time, error) {
	if l.table("alive").lost() {
		const first = "SELECT MIN(b), MAX(b) FROM (SELECT begins AS b FROM ups UNION ALL SELECT begins FROM holds UNION ALL SELECT ends FROM holds UNION ALL SELECT day FROM days UNION ALL SELECT begins FROM prices)"
		_, err := l.book.db.ExecContext(l.ctx, "INSERT OR IGNORE INTO alive SELECT 1, * FROM ("+first+" WHERE b <= ?)", l.now.UnixMilli()) // which ignores NULL
		if err != nil {
			return time.Time{}, err
		}
	}
	return l.book.Began(l.ctx)
}

// days compares the facts and sums of each day with those with which it was closed, and says of the rest of the time what may be lost of it.
func (l *loser) days(began time.Time) error {
	last, err := l.book.lastLinks(l.ctx)
	if err != nil {
		return err
	}
	var lost []string
	for _, f := range factTables {
		if l.table(f.name).lost() && !slices.Contains(lost, f.says) {
			lost = append(lost, f.says)
		}
	}
	what := someOf + strings.Join(lost, ", ")
	var whole []time.Time // days of which nothing is lost
	for day := began.Truncate(cost.Day); day.Before(l.now); day = day.Add(cost.Day) {
		sums, facts, err := l.day(day, last[day.UnixMilli()])
		if err != nil {
			return err
		}
		if facts || sums {
			whole = append(whole, day)
		}
		switch {
		case facts || len(lost) == 0:
		case sums:
			l.add(day, day.Add(cost.Day), "", what+sumsAreWhole)
		}
	}
	if len(lost) > 0 {
		_, rest := cost.Split(began, l.now, whole)
		for _, p := range rest {
			l.add(p.From, p.To, "", what)
		}
	}
	return nil
}

// day reports whether the sums of a day, and its facts, are those with which it was closed. A day of which sums are is closed, and another
// is closed again.
func (l *loser) day(day time.Time, link *Link) (sums, facts bool, err error) {
	if link != nil {
		rows, err := l.book.sumsOf(l.ctx, day)
		if err != nil {
			return false, false, err
		}
		if facts, err = l.book.sameFacts(l.ctx, link); err != nil {
			return false, false, err
		}
		sums = bytes.Equal(link.Sums, sumsHash(rows))
	}
	return sums, facts, l.book.change(l.ctx, func(w *writer) {
		key := day.UnixMilli()
		if sums {
			w.do("INSERT OR IGNORE INTO days SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM reopened WHERE day = ?1)", key)
			return
		}
		w.do("DELETE FROM months")
		w.do("DELETE FROM month_sums")
		w.do("DELETE FROM sums WHERE day = ?", key)
		w.do("DELETE FROM days WHERE day = ?", key)
		if link != nil {
			w.do("INSERT OR IGNORE INTO reopened VALUES (?, ?)", key, damagedWhy)
		}
	})
}

// holders says which pods and nodes something is lost of that other tables name.
func (l *loser) holders() error {
	now := l.now.UnixMilli()
	const name = "COALESCE((SELECT name FROM nodes WHERE uid = node), node)"
	for _, q := range []struct {
		lost, query, what string
		args              []any
	}{
		{"holds", "SELECT node, COUNT(DISTINCT subject), MIN(at), MAX(COALESCE((SELECT MAX(at) FROM records e WHERE e.subject = r.subject AND e.act = 'released'), ?)) FROM records r" +
			" WHERE act = 'granted' AND subject NOT IN (SELECT pod FROM holds) GROUP BY node", "what %d pods held", []any{now}},
		{"ups", "SELECT " + name + ", COUNT(DISTINCT pod), MIN(begins), MAX(COALESCE(ends, ?)) FROM holds WHERE node NOT IN (SELECT node FROM ups) GROUP BY node", "when the node was there, and what %d pods on it are charged", []any{now}},
		{"pods", "SELECT " + name + ", COUNT(DISTINCT pod), MIN(begins), MAX(COALESCE(ends, ?)) FROM holds WHERE pod NOT IN (SELECT uid FROM pods) GROUP BY node", "whose %d pods were; their charges have no name", []any{now}},
	} {
		if !l.table(q.lost).lost() {
			continue
		}
		r := reader{ctx: l.ctx, db: l.book.db}
		r.rows(q.query, q.args, func(scan func(...any) error) error {
			var node string
			var n, from, to int64
			err := scan(&node, &n, &from, &to)
			l.add(time.UnixMilli(from).UTC(), time.UnixMilli(max(to, from+1)).UTC(), node, fmt.Sprintf(q.what, n))
			return err
		})
		if r.err != nil {
			return r.err
		}
	}
	return nil
}

// beside says what is lost beside charges.
func (l *loser) beside(began time.Time) {
	for _, t := range []struct{ name, says string }{
		{"uses", "how busy GPUs were"}, {"lows", "which GPUs were held and idle"}, {"records", "what berth audit shows"}, {"askers", "whose pods were in berth audit"}, {"links", "the links of the chain of days"}, {"losses", "what was lost earlier"},
	} {
		lost := l.table(t.name)
		if !lost.lost() {
			continue
		}
		from, to := l.now, began
		for _, g := range lost.gaps {
			from, to = earliest(from, g.low.time(began)), latest(to, g.high.time(l.now))
		}
		if lost.bad > 0 || lost.columns[lost.keys[0]].kind == "TEXT" || t.name == "links" || t.name == "losses" {
			from, to = began, l.now
		}
		l.add(latest(from, began), to, "", someOf+t.says)
	}
}

// time is the time that a bound begins with, else another.
func (b *bound) time(missing time.Time) time.Time {
	if b == nil {
		return missing
	}
	millis, _ := b.key[0].(int64)
	return time.UnixMilli(millis).UTC()
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// write writes down what is lost.
func (l *loser) write() error {
	return l.book.change(l.ctx, func(w *writer) {
		for i := range l.out {
			w.lose(&l.out[i])
		}
	})
}

// Losses returns what was lost of a time as the file was damaged or gone, in its order.
func (b *Book) Losses(ctx context.Context, from, to time.Time) ([]cost.Loss, error) {
	r := reader{ctx: ctx, db: b.db}
	out := []cost.Loss{}
	r.rows("SELECT at, begins, ends, node, what FROM losses ORDER BY begins, id", nil, func(scan func(...any) error) error {
		var loss cost.Loss
		var at, ends int64
		var begins sql.NullInt64
		err := scan(&at, &begins, &ends, &loss.Node, &loss.What)
		loss.At, loss.To = time.UnixMilli(at).UTC(), time.UnixMilli(ends).UTC()
		if begins.Valid {
			loss.From = time.UnixMilli(begins.Int64).UTC()
		}
		if loss.In(from, to) {
			out = append(out, loss)
		}
		return err
	})
	return out, b.read(r.err)
}
