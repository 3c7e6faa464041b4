package cost

import (
	"bytes"
	"encoding/csv"
	"io"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/cli/client"
	core "berth.dev/berth/core/cost"
	"berth.dev/berth/test/screen"
)

var now = time.Date(2026, 11, 24, 15, 4, 5, 0, time.UTC)

// report has all kinds of rows, in two currencies, and a name that would act on a terminal.
var report = core.Report{
	From: now.Add(-24 * time.Hour), To: now, Began: now.Add(-time.Hour), By: core.Namespace,
	Rows: []core.ReportRow{
		{Name: "vision", What: "held", GPUHours: 12.5, Currency: "USD", CostMicros: 30_000_001},
		{Name: "evil\x1b[2J\nname", What: "held", GPUHours: 1, Currency: "EUR", CostMicros: 2_500},
		{What: "held", GPUHours: 2, UnpricedGPUHours: 2},
		{What: "idle", GPUHours: 4, Currency: "USD", CostMicros: 10_000_000},
		{What: "stranded", Reason: "cordoned", GPUHours: 0.5, Currency: "USD", CostMicros: 0},
		{What: "stranded", Reason: "no-cpu", GPUHours: 0.5, Currency: "USD", CostMicros: 0},
	},
	Nodes:  []core.NodeRemark{{Name: "home", Unpriced: true, Remark: "no list has instance type x"}, {Name: "far", Remark: "the price of us-east-1"}},
	Losses: []core.Loss{{From: now.Add(-2 * time.Hour), To: now, At: now, Node: "far", What: "what 3 pods held"}},
}

func TestTheTable(t *testing.T) {
	var out, errs bytes.Buffer
	c := &command{o: client.Options{Out: &out, Err: &errs}}
	if err := c.print(&out, &report); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		`NAMESPACE             GPU-HOURS  COST        SHARE`,
		`vision                12.50      30.00 USD   75%`,
		`evil\x1b[2J\nname     1.00       0.0025 EUR  100%`,
		`-                     2.00       unpriced    -`,
		`(idle)                4.00       10.00 USD   25%`,
		`(stranded: cordoned)  0.50       0.00 USD    0%`,
		`(stranded: no CPU)    0.50       0.00 USD    0%`,
		`total                 20.50      40.00 USD`,
		`                                 0.0025 EUR`,
		"node home is unpriced: no list has instance type x; set one with `berth price set home PRICE`",
		`node far: its price assumes the price of us-east-1`,
		`lost, as the file of the ledger was damaged or gone: 2026-11-24 13:04 to 2026-11-24 15:04 UTC, node far: what 3 pods held`,
	}, "\n")
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
	if got, want := errs.String(), "the ledger began at 2026-11-24 14:04 UTC; nothing is known of the time before\n"; got != want {
		t.Errorf("the note is %q, want %q", got, want)
	}
}

func TestTheTableOnScreens(t *testing.T) {
	screen.File(t, "screens.txt", func(w io.Writer) {
		c := &command{o: client.Options{Out: w, Err: io.Discard}}
		if err := c.print(w, &report); err != nil {
			t.Fatal(err)
		}
	}, "node ", "lost, ")
}

func TestCSVIsExact(t *testing.T) {
	var out bytes.Buffer
	if err := writeCSV(&out, &report); err != nil {
		t.Fatal(err)
	}
	if want := "vision,held,,12.5,0,30.000001,0.000000,USD,2026-11-23T15:04:05Z,2026-11-24T15:04:05Z\n"; !strings.Contains(out.String(), want) {
		t.Errorf("the file is\n%s, want the line %s", out.String(), want)
	}
}

func TestFOCUS(t *testing.T) {
	var out bytes.Buffer
	if err := writeFOCUS(&out, []*core.Report{&report}); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(rows) != 1+len(report.Rows) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	row := map[string]string{}
	for k, column := range rows[0] {
		row[column] = rows[1][k]
	}
	for column, want := range map[string]string{
		"BilledCost": "30.000001", "EffectiveCost": "30.000001", "BillingCurrency": "USD", "BillingPeriodStart": "2026-11-01T00:00:00Z", "BillingPeriodEnd": "2026-12-01T00:00:00Z",
		"ChargePeriodStart": "2026-11-23T15:04:05Z", "ChargePeriodEnd": "2026-11-24T15:04:05Z", "ChargeCategory": "Usage", "ChargeClass": "", "ConsumedQuantity": "12.5", "ConsumedUnit": "GPU-Hours",
		"SubAccountId": "vision", "Tags": `{"namespace":"vision"}`, "x_Held": "held",
	} {
		if row[column] != want {
			t.Errorf("%s is %q, want %q", column, row[column], want)
		}
	}
	parts := months(&core.Question{From: time.Date(2026, 10, 30, 5, 0, 0, 0, time.UTC), To: now})
	if len(parts) != 2 || !parts[0].To.Equal(parts[1].From) || parts[1].From.Day() != 1 || !parts[1].To.Equal(now) {
		t.Errorf("the months are %v", parts)
	}
}
