package ledger

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"time"

	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/usage"
)

// Link is one closing of a day. Each has a hash of itself and of the link before, so none can be changed or removed
// without changing all that follow.
type Link struct {
	Seq         int64 // from 1
	Day, At     time.Time
	Why         string
	Facts, Sums []byte // hashes of what was known of the day, and of its sums
	Hash        []byte
}

// link appends a link to the chain. Its Seq and Hash are filled in.
func (w *writer) link(l Link) {
	var before []byte
	w.one([]any{&l.Seq, &before}, "SELECT seq, hash FROM links ORDER BY seq DESC LIMIT 1")
	l.Seq++
	l.Hash = l.sum(before)
	w.do("INSERT INTO links VALUES (?, ?, ?, ?, ?, ?, ?)", l.Seq, l.Day.UnixMilli(), l.At.UnixMilli(), l.Why, l.Facts, l.Sums, l.Hash)
}

// sum is the hash of a link that follows one with another hash.
func (l *Link) sum(before []byte) []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%x %d %d %d %q %x %x", before, l.Seq, l.Day.UnixMilli(), l.At.UnixMilli(), l.Why, l.Facts, l.Sums)
	return h.Sum(nil)
}

// factsHash is the hash of what is known of a day. Intervals are cut at its ends, so what goes on does not change it.
func factsHash(f *cost.Facts, day time.Time) []byte {
	h := sha256.New()
	cut := func(from, to time.Time) (int64, int64) {
		end := day.Add(cost.Day)
		if to.IsZero() || to.After(end) {
			to = end
		}
		if from.Before(day) {
			from = day
		}
		return from.UnixMilli(), to.UnixMilli()
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		fmt.Fprintf(h, "node %q\n", n.UID)
		for _, u := range n.Ups {
			from, to := cut(u.From, u.To)
			fmt.Fprintf(h, "up %d %d %d\n", from, to, u.Parts)
		}
		slices.SortFunc(n.Holds, func(a, b usage.Hold) int { return cmp.Or(cmp.Compare(a.Pod, b.Pod), a.From.Compare(b.From)) })
		for _, t := range n.Holds {
			from, to := cut(t.From, t.To)
			fmt.Fprintf(h, "hold %q %d %d %d\n", t.Pod, from, to, t.Parts)
		}
		slices.SortFunc(n.Strands, func(a, b usage.Strand) int { return cmp.Or(cmp.Compare(a.Reason, b.Reason), a.From.Compare(b.From)) })
		for _, t := range n.Strands {
			from, to := cut(t.From, t.To)
			fmt.Fprintf(h, "strand %q %d %d %d\n", string(t.Reason), from, to, t.Parts)
		}
		for _, p := range n.Prices {
			from, _ := cut(p.From, p.From)
			fmt.Fprintf(h, "price %d %d %q %q\n", from, p.Micros, p.Currency, p.Source)
		}
	}
	hashPods(h, f.Pods)
	return h.Sum(nil)
}

func hashPods(h io.Writer, pods map[string]cost.Pod) {
	list := make([]cost.Pod, 0, len(pods))
	for _, p := range pods {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b cost.Pod) int { return cmp.Compare(a.UID, b.UID) })
	for i := range list {
		p := &list[i]
		fmt.Fprintf(h, "pod %q %q %q %q %q %q %q\n", p.UID, p.Namespace, p.Name, p.Kind, p.Owner, p.User, p.Queue)
		if p.Labels != "" {
			fmt.Fprintf(h, "labels %q\n", p.Labels)
		}
	}
}

// sumsHash is the hash of the sums of a day, in their order.
func sumsHash(rows []cost.DayRow) []byte {
	h := sha256.New()
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(h, "%d %q %q %q %q %q %q %d %d %d\n", r.What, string(r.Reason), r.Namespace, r.User, r.Queue, r.Product, r.Currency, r.PartMillis, r.Unpriced, r.Micros)
	}
	return h.Sum(nil)
}

// Verify checks that the chain is whole, and that the facts and sums of each day that is closed are those of its last link.
func (b *Book) Verify(ctx context.Context) (*cost.Checked, error) {
	links, err := b.links(ctx)
	if err != nil {
		return nil, err
	}
	days, err := b.Days(ctx)
	if err != nil {
		return nil, err
	}
	out := &cost.Checked{Days: len(days), Links: len(links), Problems: []cost.Problem{}, Reclosed: []cost.Problem{}}
	if out.Losses, err = b.Losses(ctx, time.Time{}, time.Unix(1<<40, 0)); err != nil {
		return nil, err
	}
	last := map[int64]*Link{}
	var before []byte
	for i := range links {
		l := &links[i]
		if before == nil && l.Seq != 1 || before != nil && l.Seq != links[i-1].Seq+1 || !bytes.Equal(l.Hash, l.sum(before)) {
			out.Problems = append(out.Problems, cost.Problem{Day: l.Day, What: fmt.Sprintf("link %d of the chain is not what was written, or one before it is missing", l.Seq)})
		}
		if l.Why == restoredWhy {
			out.Restored++
		}
		if last[l.Day.UnixMilli()] != nil {
			out.Reclosed = append(out.Reclosed, cost.Problem{Day: l.Day, What: l.Why})
		}
		before, last[l.Day.UnixMilli()] = l.Hash, l
		out.Head, out.HeadDay = hex.EncodeToString(l.Hash), l.Day
	}
	for _, day := range days {
		l := last[day.UnixMilli()]
		if l == nil {
			out.Problems = append(out.Problems, cost.Problem{Day: day, What: "the day is closed, and no link of the chain says so"})
			continue
		}
		same, err := b.sameFacts(ctx, l)
		if err != nil {
			return nil, err
		}
		if !same {
			out.Problems = append(out.Problems, cost.Problem{Day: day, What: "its facts are not those with which it was closed"})
		}
		rows, err := b.sumsOf(ctx, day)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(l.Sums, sumsHash(rows)) {
			out.Problems = append(out.Problems, cost.Problem{Day: day, What: "its sums are not those with which it was closed"})
		}
	}
	return out, nil
}

// sameFacts reports whether the facts of a day are those with which it was closed. Those that are not kept are taken for the same.
func (b *Book) sameFacts(ctx context.Context, l *Link) (bool, error) {
	if l.Day.Before(b.Kept()) {
		return true, nil
	}
	facts, err := b.Facts(ctx, l.Day, l.Day.Add(cost.Day))
	return err == nil && bytes.Equal(l.Facts, factsHash(facts, l.Day)), err
}

func (b *Book) links(ctx context.Context) (list []Link, err error) {
	r := reader{ctx: ctx, db: b.db}
	r.rows("SELECT seq, day, at, why, facts, sums, hash FROM links ORDER BY seq", nil, func(scan func(...any) error) error {
		var l Link
		var day, at int64
		err := scan(&l.Seq, &day, &at, &l.Why, &l.Facts, &l.Sums, &l.Hash)
		l.Day, l.At = time.UnixMilli(day).UTC(), time.UnixMilli(at).UTC()
		list = append(list, l)
		return err
	})
	return list, b.read(r.err)
}

// lastLinks returns the last link of each day, by the millisecond at which the day begins.
func (b *Book) lastLinks(ctx context.Context) (map[int64]*Link, error) {
	list, err := b.links(ctx)
	last := map[int64]*Link{}
	for i := range list {
		last[list[i].Day.UnixMilli()] = &list[i]
	}
	return last, err
}

// sumsOf reads the sums of a day.
func (b *Book) sumsOf(ctx context.Context, day time.Time) (rows []cost.DayRow, err error) {
	r := reader{ctx: ctx, db: b.db}
	query := "SELECT namespace, user, queue, product, what, reason, currency, part_millis, unpriced, micros FROM sums WHERE day = ? ORDER BY what, reason, namespace, user, queue, product, currency"
	r.rows(query, []any{day.UnixMilli()}, func(scan func(...any) error) error {
		var d cost.DayRow
		err := scan(&d.Namespace, &d.User, &d.Queue, &d.Product, &d.What, &d.Reason, &d.Currency, &d.PartMillis, &d.Unpriced, &d.Micros)
		rows = append(rows, d)
		return err
	})
	return rows, b.read(r.err)
}

// DayRows returns the sums of a day that is closed, in their order.
func (b *Book) DayRows(ctx context.Context, day time.Time) ([]cost.DayRow, error) {
	return b.sumsOf(ctx, day)
}

// LastClosed returns the day that was closed last, also if that was not for the first time; zero is none.
func (b *Book) LastClosed(ctx context.Context) (day time.Time, err error) {
	r := reader{ctx: ctx, db: b.db}
	r.rows("SELECT day FROM links ORDER BY seq DESC LIMIT 1", nil, func(scan func(...any) error) error {
		var millis int64
		err := scan(&millis)
		day = time.UnixMilli(millis).UTC()
		return err
	})
	return day, b.read(r.err)
}
