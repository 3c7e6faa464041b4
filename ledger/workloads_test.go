package ledger

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/cost"
)

// TestWrongWorkloadsOfADayAreNotRead changes what is kept of the workloads of days behind the book's back: reports read facts then.
func TestWrongWorkloadsOfADayAreNotRead(t *testing.T) {
	for _, c := range []struct {
		name, change string
		read         int // days that are read from it
	}{
		{"nothing is changed", "SELECT 1", 3},
		{"the value cannot be read", "UPDATE day_workloads SET rows = x'00'", 0},
		{"the value is cut", "UPDATE day_workloads SET rows = SUBSTR(rows, 1, LENGTH(rows) / 2)", 0},
		{"the value is that of another day", "UPDATE day_workloads SET rows = (SELECT rows FROM day_workloads ORDER BY day LIMIT 1)", 1},
		{"the value of one day is lost", "DELETE FROM day_workloads WHERE day = (SELECT MAX(day) FROM day_workloads)", 2},
		{"a day is open again", "DELETE FROM days WHERE day = (SELECT MIN(day) FROM days)", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := open(t, filepath.Join(t.TempDir(), "ledger.db"))
			batch := &Batch{
				Pods:  []cost.Pod{{UID: "p1", Namespace: "vision", Kind: "Job", Owner: "train"}, {UID: "p2", Namespace: "vision"}},
				Holds: []Holds{{Key: "p1", Value: Hold{"n1", 4}, From: at(10)}, {Key: "p2", Value: Hold{"n1", 1}, From: at(2000)}}, Ups: []Ups{{Key: "n1", Value: 8, From: at(0)}},
				Prices: []Prices{{Key: "n1", Value: Price{5_000_000, "USD", "list", ""}, From: at(0)}, {Key: "n1", Value: Price{7_000_000, "EUR", "list", ""}, From: at(3000)}},
			}
			batch.Prices[0].To = at(3000)
			if err := b.Write(t.Context(), batch, at(0)); err != nil {
				t.Fatal(err)
			}
			if n := closeAll(t, b, at(3*1440)); n != 3 {
				t.Fatalf("%d days were closed, want 3", n)
			}
			if _, err := b.db.ExecContext(t.Context(), c.change); err != nil {
				t.Fatal(err)
			}
			from, to := at(0).Truncate(cost.Day), at(3*1440).Truncate(cost.Day)
			r := reader{ctx: t.Context(), db: b.db}
			if read := r.workloads(from, to); len(read) != c.read || r.err != nil {
				t.Errorf("%d days are read from it, %v; want %d", len(read), r.err, c.read)
			}
			got, want := rowsOf(t, b, from, at(3*1440), cost.Workload)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-facts +days):\n%s", diff)
			}
		})
	}
}
