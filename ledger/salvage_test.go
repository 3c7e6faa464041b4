package ledger

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/audit"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/usage"
	"berth.dev/berth/test/soak"
)

// truth is a book of seven days, of which six are closed, as a file and as what is in it.
type truth struct {
	raw     []byte
	holds   map[string]usage.Hold // by pod
	charged map[time.Time]int64   // by day
	copies  []Copy                // of the days that are closed
	end     time.Time
}

// aBook makes a book of 1,500 pods on three nodes.
func aBook(t *testing.T) *truth {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	b := open(t, path)
	r := rand.New(rand.NewPCG(3, 50))
	out := &truth{holds: map[string]usage.Hold{}, charged: map[time.Time]int64{}, end: at(6 * 1440)}
	batch := &Batch{}
	for n := range 3 {
		uid := fmt.Sprint("n", n)
		batch.Nodes = append(batch.Nodes, Node{UID: uid, Name: "node-" + uid, Product: "A100"})
		batch.Ups = append(batch.Ups, Ups{Key: uid, Value: 8, From: at(0)})
		batch.Prices = append(batch.Prices, Prices{Key: uid, Value: Price{8_000_000, "USD", "list", ""}, From: at(0)})
	}
	for range 1500 {
		uid := fmt.Sprintf("%08x-61c1-4c7e-9d6f-%012x", r.Uint32(), r.Int64N(1<<48))
		node, from := fmt.Sprint("n", r.IntN(3)), at(r.IntN(6*1440-200))
		to := from.Add(time.Duration(1+r.IntN(180)) * time.Minute)
		batch.Pods = append(batch.Pods, cost.Pod{UID: uid, Namespace: fmt.Sprint("ns", r.IntN(3)), Name: uid, Kind: "Job", Owner: "o", User: fmt.Sprint("u", r.IntN(9)), Queue: "q"})
		batch.Askers = append(batch.Askers, batch.Pods[len(batch.Pods)-1])
		batch.Holds = append(batch.Holds, Holds{Key: uid, Value: Hold{node, 1}, From: from, To: to, End: usage.End{Source: usage.Stated}})
		batch.Records = append(batch.Records, audit.Record{At: from, Subject: uid, Act: audit.Granted, Node: "node-" + node}, audit.Record{At: to, Subject: uid, Act: audit.Released, Node: "node-" + node})
		batch.Uses = append(batch.Uses, usage.Use{Pod: uid, From: from, To: to, Used: time.Minute})
		out.holds[uid] = usage.Hold{Pod: uid, Parts: 1, From: from, To: to}
	}
	if err := b.Write(t.Context(), &Batch{}, at(0)); err != nil {
		t.Fatal(err)
	}
	if err := b.Write(t.Context(), batch, out.end); err != nil {
		t.Fatal(err)
	}
	if n := closeAll(t, b, out.end); n != 6 {
		t.Fatalf("%d days were closed, want 6", n)
	}
	for day := at(0).Truncate(cost.Day); day.Before(out.end); day = day.Add(cost.Day) {
		out.charged[day] = charged(t, b, day)
	}
	days, err := b.Days(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, day := range days {
		rows, err := b.sumsOf(t.Context(), day)
		if err != nil {
			t.Fatal(err)
		}
		out.copies = append(out.copies, Copy{Day: day, Rows: rows, Sums: SumsHash(rows)})
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out.raw = raw
	return out
}

// charged is what a book charges for a day.
func charged(t *testing.T, b *Book, day time.Time) (micros int64) {
	t.Helper()
	rows, err := b.Rows(t.Context(), day, day.Add(cost.Day), cost.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if rows[i].What == cost.Held {
			micros += rows[i].Micros
		}
	}
	return micros
}

const pageSize = 4096

// damage changes a file in one of several ways, and returns which.
func damage(r *rand.Rand, raw []byte) ([]byte, string) {
	pages := len(raw) / pageSize
	random := func(to []byte) {
		for i := range to {
			to[i] = byte(r.Uint32())
		}
	}
	switch r.IntN(5) {
	case 0:
		return raw[:r.IntN(len(raw))], "the end is missing"
	case 1:
		random(raw[:100])
		return raw, "the header is not one"
	case 2:
		p := r.IntN(pages)
		clear(raw[p*pageSize : (p+1)*pageSize])
		return raw, fmt.Sprintf("page %d is empty", p+1)
	}
	text := "other pages:"
	for range 1 + r.IntN(5) {
		p := r.IntN(pages)
		random(raw[p*pageSize : (p+1)*pageSize])
		text += fmt.Sprint(" ", p+1)
	}
	return raw, text
}

// damaged opens the book as a file that is damaged. It returns what is in the file, and how it was damaged.
func (good *truth) damaged(t *testing.T, r *rand.Rand, path string) (b *Book, raw []byte, how string) {
	t.Helper()
	raw, how = damage(r, bytes.Clone(good.raw))
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := Open(t.Context(), path)
	if err != nil {
		t.Fatalf("%s, %s: %v", path, how, err)
	}
	return b, raw, how
}

// TestADamagedBookIsSalvaged damages pages of a book at random. It is opened again each time, the damaged file is kept, nothing is in
// the new one that was not in the old one, and each pod that is lost, and each day that is charged otherwise, is in the time of a loss.
func TestADamagedBookIsSalvaged(t *testing.T) {
	soak.Plainly(t)
	good := aBook(t)
	salvaged, holds, all := 0, 0, 0
	for seed := range soak.Pick(uint64(4), 400) {
		r := rand.New(rand.NewPCG(seed, 51))
		dir := t.TempDir()
		path := filepath.Join(dir, "ledger.db")
		b, raw, how := good.damaged(t, r, path)
		s := b.Salvaged()
		if s != nil {
			salvaged++
			if kept, err := os.ReadFile(s.Kept); err != nil || !bytes.Equal(kept, raw) {
				t.Errorf("seed %d, %s: the damaged file is not kept as it was: %d bytes, %v", seed, how, len(kept), err)
			}
		}
		problems := good.compare(t, b)
		for _, p := range problems {
			t.Errorf("seed %d, %s: %s", seed, how, p)
		}
		f, err := b.Facts(t.Context(), at(-1), good.end)
		if err != nil {
			t.Fatal(err)
		}
		for i := range f.Nodes {
			holds += len(f.Nodes[i].Holds)
		}
		all += len(good.holds)
		if err := b.Write(t.Context(), &Batch{Ups: []Ups{{Key: "later", Value: 1, From: good.end}}}, good.end); err != nil {
			t.Errorf("seed %d, %s: the new book cannot be written: %v", seed, how, err)
		}
		closeAll(t, b, good.end.Add(2*cost.Day))
		losses, err := b.Losses(t.Context(), at(-1), good.end)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if b, err = Open(t.Context(), path); err != nil {
			t.Fatalf("seed %d, %s: the salvaged book is not opened again: %v", seed, how, err)
		}
		if again, err := b.Losses(t.Context(), at(-1), good.end); err != nil || len(again) != len(losses) || b.Salvaged() != nil {
			t.Errorf("seed %d, %s: opened again it has %d losses, want %d, %v, salvaged again: %v", seed, how, len(again), len(losses), err, b.Salvaged())
		}
		_ = b.Close()
		if left, _ := filepath.Glob(path + ".salvage*"); len(left) > 0 {
			t.Errorf("seed %d, %s: %v are left", seed, how, left)
		}
	}
	t.Logf("%d books were salvaged, with %d of %d holds", salvaged, holds, all)
	if salvaged == 0 || holds < all/2 {
		t.Errorf("%d books were salvaged, with %d of %d holds: that shows little", salvaged, holds, all)
	}
}

// compare returns what a book has that is not true, or does not have and does not say so.
func (good *truth) compare(t *testing.T, b *Book) (problems []string) {
	f, err := b.Facts(t.Context(), at(-1), good.end)
	if err != nil {
		t.Fatal(err)
	}
	losses, err := b.Losses(t.Context(), at(-1), good.end)
	if err != nil {
		t.Fatal(err)
	}
	said := func(from, to time.Time) bool {
		for i := range losses {
			if losses[i].In(from, to) {
				return true
			}
		}
		return false
	}
	has := map[string]bool{}
	for i := range f.Nodes {
		for _, h := range f.Nodes[i].Holds {
			has[h.Pod] = true
			if h != good.holds[h.Pod] {
				problems = append(problems, fmt.Sprintf("a hold is %v, and was %v", h, good.holds[h.Pod]))
			}
		}
	}
	for uid, h := range good.holds {
		if !has[uid] && !said(h.From, h.To) {
			problems = append(problems, fmt.Sprintf("the hold %v is lost, and nothing says so: %v", h, losses))
			break
		}
	}
	for day, want := range good.charged {
		if got := charged(t, b, day); got != want && !said(day, day.Add(cost.Day)) {
			problems = append(problems, fmt.Sprintf("%v is charged %d and was %d, and nothing says so: %v", day, got, want, losses))
		}
	}
	return problems
}

func TestWhatIsLostIsSaidByNodeAndTime(t *testing.T) {
	soak.Plainly(t)
	good := aBook(t)
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(path, good.raw, 0o600); err != nil {
		t.Fatal(err)
	}
	b := open(t, path)
	var root int
	if err := b.db.QueryRowContext(t.Context(), "SELECT rootpage FROM sqlite_schema WHERE name = 'holds'").Scan(&root); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	raw := bytes.Clone(good.raw)
	clear(raw[(root-1)*pageSize : root*pageSize])
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	b = open(t, path)
	losses, err := b.Losses(t.Context(), at(-1), good.end)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i := range losses {
		lines = append(lines, losses[i].String())
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{
		"2026-11-02 00:00 to 2026-11-03 00:00 UTC: some of who held GPUs; the sums of the day by namespace, user, queue, and product are whole",
		", node node-n0: what ", ", node node-n1: what ", ", node node-n2: what ", " pods held",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the losses are\n%s\nwant one with %q", text, want)
		}
	}
	for day, want := range good.charged {
		if last := !day.Add(cost.Day).Before(good.end); charged(t, b, day) != want && !last {
			t.Errorf("the closed day %v is charged otherwise", day)
		}
	}
	checked, err := b.Verify(t.Context())
	if err != nil || len(checked.Losses) != len(losses) || len(checked.Problems) != 6 {
		t.Errorf("the check finds %+v, %v", checked, err)
	}
}

func TestAFileThatIsNotADatabaseIsSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	text := strings.Repeat("not a database at all\n", 500)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, path).Salvaged()
	if s == nil || len(s.Losses) != 1 || !strings.HasSuffix(s.Losses[0].String(), "UTC: all that the ledger had") {
		t.Fatalf("salvaged is %v", s)
	}
	if got, err := os.ReadFile(s.Kept); err != nil || string(got) != text {
		t.Errorf("the file has changed: %d bytes, %v", len(got), err)
	}
}

// TestASalvageThatIsInterruptedIsFinished has one end before each of its last steps.
func TestASalvageThatIsInterruptedIsFinished(t *testing.T) {
	good := aBook(t)
	for _, c := range []struct{ name, wal string }{{"before the files beside the damaged book are removed", "stale"}, {"after they are", ""}} {
		path := filepath.Join(t.TempDir(), "ledger.db")
		for file, text := range map[string][]byte{path: []byte("damaged"), path + done: good.raw, path + ".salvage": []byte("half"), path + "-wal": []byte(c.wal)} {
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		b := open(t, path)
		if problems := good.compare(t, b); len(problems) > 0 || b.Salvaged() != nil {
			t.Errorf("%s: %v, %v", c.name, problems, b.Salvaged())
		}
	}
}

func TestDamageWhileABookIsOpenIsNoticed(t *testing.T) {
	good := aBook(t)
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(path, good.raw, 0o600); err != nil {
		t.Fatal(err)
	}
	b := open(t, path)
	raw := bytes.Clone(good.raw)
	for p := 1; p < len(raw)/pageSize; p++ {
		clear(raw[p*pageSize : (p+1)*pageSize])
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	b.db.SetMaxIdleConns(0) // what a connection has read it keeps
	if _, err := b.Facts(t.Context(), at(0), good.end); !Damaged(err) {
		t.Errorf("reading it gets the error %v, want one that is of damage", err)
	}
}
