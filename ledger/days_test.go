package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/audit"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/usage"
	"berth.dev/berth/test/soak"
)

// closeAll closes all days that can be.
func closeAll(t testing.TB, b *Book, now time.Time) (n int) {
	for {
		closed, err := b.CloseDay(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		if !closed {
			return n
		}
		n++
	}
}

// rowsOf is what is charged, from days and facts, and from facts alone.
func rowsOf(t testing.TB, b *Book, from, to time.Time, by cost.By) (got, want []cost.Row) {
	got, err := b.Rows(t.Context(), from, to, by)
	if err != nil {
		t.Fatal(err)
	}
	f, err := b.Facts(t.Context(), from, to)
	if err != nil {
		t.Fatal(err)
	}
	return got, cost.Sum(cost.Account(f, from, to), by)
}

// totalsAreFacts asks that all that was charged is what the facts say, whatever is remembered of days that are closed.
func totalsAreFacts(t *testing.T, b *Book, now time.Time) {
	t.Helper()
	got, err := b.Totals(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	f, err := b.Facts(t.Context(), at(0), now)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cost.DayRows(cost.Account(f, at(0), now)), got); diff != "" {
		t.Fatalf("at %v totals and facts differ (-facts +totals):\n%s", now, diff)
	}
}

// TestDaysAreWhatFactsAre plays random lives over ten days, also with ends that come days late and pods that are only known
// later, and closes days in between: reports are those of the facts alone, and the chain holds.
func TestDaysAreWhatFactsAre(t *testing.T) {
	soak.Plainly(t)
	for seed := range soak.Pick(uint64(3), 40) {
		r := rand.New(rand.NewPCG(seed, 31))
		path := filepath.Join(t.TempDir(), "ledger.db")
		b := open(t, path)
		batch := &Batch{}
		for n := range 3 {
			uid := fmt.Sprint("n", n)
			batch.Nodes = append(batch.Nodes, Node{UID: uid, Name: uid, Product: fmt.Sprint("P", n%2)})
			batch.Ups = append(batch.Ups, Ups{Key: uid, Value: 8, From: at(0)})
			batch.Prices = append(batch.Prices, Prices{Key: uid, Value: Price{int64(1_000_000 * (n + 1)), []string{"USD", "EUR"}[n%2], "list", ""}, From: at(0)})
		}
		write := func(batch *Batch, now time.Time) {
			if err := b.Write(t.Context(), batch, now); err != nil {
				t.Fatal(err)
			}
		}
		write(batch, at(0))
		open := map[string]Holds{}
		reclosed := false
		for step := range 240 {
			now := at(step * 60)
			uid := fmt.Sprint("p", step)
			from := now.Add(-time.Duration(r.IntN(4)*r.IntN(1200)) * time.Minute)
			h := Holds{Key: uid, Value: Hold{fmt.Sprint("n", r.IntN(3)), int64(1 + r.IntN(3))}, From: from}
			batch := &Batch{Pods: []cost.Pod{{UID: uid, Namespace: fmt.Sprint("ns", r.IntN(3)), User: fmt.Sprint("u", r.IntN(3)), Queue: fmt.Sprint("q", r.IntN(2))}}, Holds: []Holds{h}}
			open[uid] = h
			for key, o := range open {
				if r.IntN(6) == 0 {
					o.To, o.End = now.Add(-time.Duration(r.IntN(3)*r.IntN(2000))*time.Minute), usage.End{Source: usage.Stated}
					if o.To.Before(o.From) {
						o.To = o.From
					}
					batch.Holds = append(batch.Holds, o)
					delete(open, key)
				}
			}
			write(batch, now)
			if r.IntN(5) == 0 {
				closeAll(t, b, now)
			}
			if r.IntN(5) == 0 {
				totalsAreFacts(t, b, now)
			}
		}
		now := at(240 * 60)
		closeAll(t, b, now)
		checked, err := b.Verify(t.Context())
		if err != nil || len(checked.Problems) > 0 || checked.Days < 9 {
			t.Fatalf("seed %d: the chain is %+v, %v", seed, checked, err)
		}
		reclosed = reclosed || len(checked.Reclosed) > 0
		if !reclosed {
			t.Errorf("seed %d: no day was closed again, so nothing came late", seed)
		}
		for _, by := range cost.Bys {
			for _, from := range []time.Time{at(0), at(0).Add(30 * time.Hour), now.Add(-72 * time.Hour)} {
				got, want := rowsOf(t, b, from.Truncate(time.Hour), now, by)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("seed %d: from %v by %s days and facts differ (-facts +days):\n%s", seed, from, by, diff)
				}
			}
		}
	}
}

// TestAChangedPastShows changes a book behind its back.
func TestAChangedPastShows(t *testing.T) {
	for _, c := range []struct{ name, change, want string }{
		{"nothing", "SELECT 1", ""},
		{"a fact", "UPDATE holds SET parts = 7", "2026-11-02 its facts are not those with which it was closed; 2026-11-03 its facts are not those with which it was closed"},
		{"whose a pod is", "UPDATE pods SET user = 'bob'", "2026-11-02 its facts are not those with which it was closed; 2026-11-03 its facts are not those with which it was closed"},
		{"a price", "UPDATE prices SET micros = 1", "2026-11-02 its facts are not those with which it was closed; 2026-11-03 its facts are not those with which it was closed"},
		{"a sum", "UPDATE sums SET micros = micros + 1 WHERE day = (SELECT MIN(day) FROM sums) AND what = 0", "2026-11-02 its sums are not those with which it was closed"},
		{"a link", "UPDATE links SET why = 'x' WHERE seq = 1", "2026-11-02 link 1 of the chain is not what was written, or one before it is missing"},
		{"a link that is removed", "DELETE FROM links WHERE seq = 1", "2026-11-03 link 2 of the chain is not what was written, or one before it is missing"},
		{"a day that is made up", "INSERT INTO days VALUES (0)", "1970-01-01 the day is closed, and no link of the chain says so"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := open(t, filepath.Join(t.TempDir(), "ledger.db"))
			batch := &Batch{
				Pods: []cost.Pod{{UID: "p1", User: "ann"}}, Holds: []Holds{{Key: "p1", Value: Hold{"n1", 4}, From: at(10)}}, Ups: []Ups{{Key: "n1", Value: 8, From: at(0)}},
				Prices: []Prices{{Key: "n1", Value: Price{5_000_000, "USD", "list", ""}, From: at(0)}},
			}
			if err := b.Write(t.Context(), batch, at(0)); err != nil {
				t.Fatal(err)
			}
			if n := closeAll(t, b, at(3*1440)); n != 3 {
				t.Fatalf("%d days were closed, want 3 that have ended", n)
			}
			if _, err := b.db.ExecContext(t.Context(), c.change); err != nil {
				t.Fatal(err)
			}
			checked, err := b.Verify(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range checked.Problems {
				got = append(got, p.Day.Format(time.DateOnly)+" "+p.What)
			}
			if text := strings.Join(got, "; "); !strings.HasPrefix(text, c.want) || (c.want == "") != (text == "") {
				t.Errorf("found is %q, want %q", text, c.want)
			}
		})
	}
}

// aYear writes sums of a year of days, as closing days of 10,000 pods would: 20 namespaces, 100 users, 20 queues, 4 products.
func aYear(b *testing.B, book *Book) {
	r := rand.New(rand.NewPCG(1, 32))
	for day := range 365 {
		at := epoch.Truncate(cost.Day).Add(time.Duration(day) * cost.Day)
		err := book.change(b.Context(), func(w *writer) {
			for user := range 100 {
				for product := range 4 {
					w.do("INSERT INTO sums VALUES (?, ?, ?, ?, ?, 0, '', 'USD', ?, 0, ?)", at.UnixMilli(), fmt.Sprint("team-", user%20), fmt.Sprint("user-", user, "@example.com"), fmt.Sprint("queue-", user%20),
						fmt.Sprint("NVIDIA-A100-SXM4-", product, "0GB"), r.Int64N(1e12), r.Int64N(1e9))
				}
			}
			w.do("INSERT INTO days VALUES (?)", at.UnixMilli())
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkYearByUser is a report of a year.
func BenchmarkYearByUser(b *testing.B) {
	book, err := Open(b.Context(), filepath.Join(b.TempDir(), "ledger.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer book.Close()
	aYear(b, book)
	from := epoch.Truncate(cost.Day)
	for b.Loop() {
		if rows, err := book.Rows(b.Context(), from, from.Add(365*cost.Day), cost.User); err != nil || len(rows) != 100 {
			b.Fatalf("%d rows, %v", len(rows), err)
		}
	}
}

// BenchmarkTotalsOfAYear asks for the counters as every 30 seconds: all that was charged until now, with a year that is closed.
func BenchmarkTotalsOfAYear(b *testing.B) {
	book, err := Open(b.Context(), filepath.Join(b.TempDir(), "ledger.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer book.Close()
	aYear(b, book)
	from := epoch.Truncate(cost.Day)
	if err := book.Write(b.Context(), &Batch{}, from); err != nil { // then it began
		b.Fatal(err)
	}
	for b.Loop() {
		if rows, err := book.Totals(b.Context(), from.Add(365*cost.Day+time.Hour)); err != nil || len(rows) != 400 {
			b.Fatalf("%d rows, %v", len(rows), err)
		}
	}
}

// BenchmarkCloseDay closes a day of 10,000 pods on 100 nodes.
func BenchmarkCloseDay(b *testing.B) {
	book, err := Open(b.Context(), filepath.Join(b.TempDir(), "ledger.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer book.Close()
	batch := &Batch{}
	for n := range 100 {
		uid := fmt.Sprint("n", n)
		batch.Ups = append(batch.Ups, Ups{Key: uid, Value: 8, From: at(0)})
		batch.Prices = append(batch.Prices, Prices{Key: uid, Value: Price{30_000_000, "USD", "list", ""}, From: at(0)})
	}
	for p := range 10_000 {
		uid := fmt.Sprintf("8c5e2c1e-61c1-4c7e-9d6f-%012d", p)
		from := at(0).Add(time.Duration(p) * 8640 * time.Millisecond)
		batch.Pods = append(batch.Pods, cost.Pod{UID: uid, Namespace: fmt.Sprint("team-", p%20), Name: fmt.Sprint("train-", p), Kind: "Job", Owner: fmt.Sprint("train-", p/4), User: fmt.Sprint("user-", p%100, "@example.com"), Queue: fmt.Sprint("queue-", p%20)})
		batch.Holds = append(batch.Holds, Holds{Key: uid, Value: Hold{fmt.Sprint("n", p%100), 1}, From: from, To: from.Add(90 * time.Minute), End: usage.End{Source: usage.Stated}})
	}
	if err := book.Write(b.Context(), batch, at(0)); err != nil {
		b.Fatal(err)
	}
	size, err := book.pages(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	begun := time.Now()
	if why, err := check(b.Context(), book.db); why != "" || err != nil {
		b.Fatalf("the check finds %q, %v", why, err)
	}
	checked := time.Since(begun)
	day := epoch.Truncate(cost.Day)
	for b.Loop() {
		if err := book.closeDay(b.Context(), day, day.Add(2*cost.Day)); err != nil {
			b.Fatal(err)
		}
		if err := book.change(b.Context(), func(w *writer) { w.reopen(day.UnixMilli(), 0, lateWhy) }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(size)/10_000, "B/pod")
	b.ReportMetric(float64(size)/1e6/checked.Seconds(), "MB/s-checked")
}

// pages is the size of the book in bytes.
func (b *Book) pages(ctx context.Context) (size int64, err error) {
	err = b.db.QueryRowContext(ctx, "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()").Scan(&size)
	return size, err
}

// TestOldFactsAreForgotten closes forty days and forgets the first twenty: sums stay what they were, the chain holds, facts that come late
// change no day whose facts are gone, and only those facts are left that are needed.
func TestOldFactsAreForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	b := open(t, path)
	batch := &Batch{Nodes: []Node{{UID: "n1", Name: "node-1", Product: "A100"}}, Ups: []Ups{{Key: "n1", Value: 8, From: at(0)}}, Prices: []Prices{{Key: "n1", Value: Price{8_000_000, "USD", "list", ""}, From: at(0)}}}
	hold := func(uid string, from, to int) {
		batch.Pods = append(batch.Pods, cost.Pod{UID: uid, Namespace: "vision", User: "ann", Labels: "team=" + uid})
		batch.Askers = append(batch.Askers, batch.Pods[len(batch.Pods)-1])
		batch.Holds = append(batch.Holds, Holds{Key: uid, Value: Hold{"n1", 1}, From: at(from), To: at(to), End: usage.End{Source: usage.Stated}})
		batch.Uses = append(batch.Uses, usage.Use{Pod: uid, From: at(from), To: at(from + 30)})
		batch.Records = append(batch.Records, audit.Record{At: at(from), Subject: uid, Act: audit.Granted}, audit.Record{At: at(to), Subject: uid, Act: audit.Released})
	}
	for day := range 40 {
		hold(fmt.Sprint("p", day), day*1440+60, day*1440+600)
	}
	hold("long", 60, 39*1440)
	now := at(40 * 1440)
	for _, part := range []*Batch{{}, batch} {
		alive := now
		if part.Empty() {
			alive = at(0)
		}
		if err := b.Write(t.Context(), part, alive); err != nil {
			t.Fatal(err)
		}
	}
	closeAll(t, b, now)
	if err := b.CloseMonths(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Forget(t.Context(), at(-1440)); err != nil || !b.Kept().IsZero() {
		t.Fatalf("after forgetting what was before the first day, facts are kept since %v (%v)", b.Kept(), err)
	}
	from := at(0).Truncate(cost.Day)
	before, want := rowsOf(t, b, from, now, cost.User)
	if diff := cmp.Diff(want, before); diff != "" {
		t.Fatalf("months, days, and facts differ (-facts +sums):\n%s", diff)
	}
	keep := at(0).Truncate(cost.Day).Add(20 * cost.Day)
	if err := b.Forget(t.Context(), keep.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		got, err := b.Rows(t.Context(), from, now, cost.User)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, got); diff != "" {
			t.Errorf("%s the sums are others (-before +after):\n%s", when, diff)
		}
		checked, err := b.Verify(t.Context())
		if err != nil || len(checked.Problems) > 0 || !b.Kept().Equal(keep) {
			t.Errorf("%s the chain is %+v, %v, with facts since %v", when, checked, err, b.Kept())
		}
	}
	check("after old facts are forgotten")
	for table, want := range map[string]int{"holds": 21, "pods": 21, "pod_labels": 21, "askers": 21, "uses": 20, "ups": 1, "prices": 1, "nodes": 1} {
		var n int
		if err := b.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil || n != want {
			t.Errorf("%s has %d rows, want %d, %v", table, n, want, err)
		}
	}
	late := Holds{Key: "late", Value: Hold{"n1", 1}, From: at(60), To: at(120), End: usage.End{Source: usage.Stated}}
	if err := b.Write(t.Context(), &Batch{Holds: []Holds{late}}, now); err != nil {
		t.Fatal(err)
	}
	closeAll(t, b, now)
	check("after a fact of that time has come late")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = open(t, path)
	check("opened again")
	if err := b.Forget(t.Context(), at(0)); err != nil || !b.Kept().Equal(keep) {
		t.Errorf("asked to keep more, it has facts since %v, %v", b.Kept(), err)
	}
}
