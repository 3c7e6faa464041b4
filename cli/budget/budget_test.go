package budget

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/test/screen"
)

func TestTable(t *testing.T) {
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	r := &cost.BudgetReport{Now: now, Began: now.AddDate(0, 0, -3), Rows: []cost.BudgetStanding{
		{Queue: "research", Month: "2026-11", Currency: "USD", BudgetMicros: 5_000_000_000, SpentMicros: 1_000_500_000, ForecastMicros: 2_000_000_000, Percent: 20},
		{Queue: "speech", Month: "2026-11", Currency: "EUR", BudgetMicros: 100_000_000, SpentMicros: 85_000_000, ForecastMicros: 130_000_000, Percent: 85, Reached: 80, RunsOut: new(now.Add(50 * time.Hour)), Others: []cost.Amount{{Currency: "USD", Micros: 3_000_000}}},
		{Queue: "vision", Month: "2026-11", Currency: "USD", BudgetMicros: 100_000_000, SpentMicros: 120_000_000, ForecastMicros: 150_000_000, Percent: 120, Reached: 100, RunsOut: &now, UnpricedGPUHours: 2.5},
	}}
	screen.File(t, "screens.txt", func(w io.Writer) {
		c := &command{o: client.Options{Out: w, Err: io.Discard}}
		if err := c.print(w, r); err != nil {
			t.Fatal(err)
		}
	}, "queue ")
	var out, errs bytes.Buffer
	c := &command{o: client.Options{Out: &out, Err: &errs}}
	if err := c.print(&out, r); err != nil {
		t.Fatal(err)
	}
	const want = `QUEUE     MONTH    BUDGET       SPENT              FORECAST     SPENT BY
research  2026-11  5000.00 USD  1000.50 USD  20%   2000.00 USD  -
speech    2026-11  100.00 EUR   85.00 EUR    85%   130.00 EUR   2026-11-18 14:00
vision    2026-11  100.00 USD   120.00 USD   120%  150.00 USD   now
queue speech has also spent 3.00 USD, which do not count: the budget is in EUR
queue vision has held 2.50 GPU-hours without a price, which do not count; ` + "`berth price list`" + ` shows the nodes
`
	if out.String() != want {
		t.Errorf("printed is\n%s\nwant\n%s", out.String(), want)
	}
	page, err := os.ReadFile("../../docs/cost.md")
	if err != nil || !strings.Contains(string(page), "$ berth budget\n"+want) {
		t.Errorf("docs/cost.md does not show this table, %v", err)
	}
	if got, want := errs.String(), "the ledger began at 2026-11-13 12:00 UTC; nothing is known of the time before\n"; got != want {
		t.Errorf("noted is %q, want %q", got, want)
	}
}
