package cost

import (
	"fmt"
	"testing"
	"time"
)

func TestSummaries(t *testing.T) {
	r := &Report{From: at(0), To: at(10 * 60), Began: at(-60), Rows: []ReportRow{
		{Name: "vision", What: "held", Currency: "USD", CostMicros: 6_000_000},
		{What: "idle", Currency: "USD", CostMicros: 3_000_000},
		{What: "stranded", Reason: "cordoned", Currency: "USD", CostMicros: 1_000_000},
		{What: "idle", Currency: "EUR", CostMicros: 500_000},
		{Name: "vision", What: "held", UnpricedGPUHours: 3},
	}}
	use := &UseReport{Rows: []UseReportRow{{Name: "ann", Currency: "USD", IdleMicros: 2_000_000}, {Name: "bob", IdleGPUHours: 9}}}
	for _, c := range []struct {
		name  string
		began int
		want  string
	}{
		// 6 of 10 dollars in 10 hours are 0.6 an hour, and 438 a month of 730 hours.
		{"a ledger that has all of the time", -60, "[{USD 10000000 6000000 3000000 1000000 2000000 438000000} {EUR 500000 0 500000 0 0 36500000}]"},
		{"one that began in the middle", 5 * 60, "[{USD 10000000 6000000 3000000 1000000 2000000 876000000} {EUR 500000 0 500000 0 0 73000000}]"},
	} {
		r.Began = at(c.began)
		if got := fmt.Sprint(Summaries(r, use)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if got := Summaries(&Report{From: at(0), To: at(0)}, &UseReport{}); len(got) != 0 {
		t.Errorf("a time without length has %v", got)
	}
}

func TestTarget(t *testing.T) {
	high, low := 0.9, 0.3
	use := &UseReport{Rows: []UseReportRow{{Name: "a", KnownGPUHours: 3, Utilization: &high}, {Name: "b", KnownGPUHours: 1, Utilization: &low}, {Name: "c", KnownGPUHours: 0.5, Utilization: &low}, {Name: "d", GPUHours: 9}}}
	missed := ""
	for i := range use.Rows {
		if use.Rows[i].Misses(Target) {
			missed += use.Rows[i].Name
		}
	}
	if missed != "b" {
		t.Errorf("%s misses the target, want b: of c too little is known, and of d nothing", missed)
	}
	if mean := use.Mean(); mean == nil || *mean < 0.699 || *mean > 0.701 {
		t.Errorf("the mean is %v, want 0.7", mean)
	}
	if (&UseReport{Rows: use.Rows[3:]}).Mean() != nil {
		t.Error("there is a mean of what is not known")
	}
	if got := (&Report{From: at(0), To: at(60), Began: at(30)}).Covered(); got != 30*time.Minute {
		t.Errorf("covered is %v, want 30 minutes", got)
	}
}
