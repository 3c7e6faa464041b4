package cost

import (
	"fmt"
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	now := time.Date(2026, 11, 4, 15, 30, 0, 0, time.UTC) // a Wednesday
	for text, want := range map[string]string{
		"today": "11-04 00:00 to 11-04 15:30", "yesterday": "11-03 00:00 to 11-04 00:00", "week": "11-01 00:00 to 11-04 15:30", "month": "11-01 00:00 to 11-04 15:30",
		"lastweek": "10-25 00:00 to 11-01 00:00", "lastmonth": "10-01 00:00 to 11-01 00:00", "30m": "11-04 15:00 to 11-04 15:30", "2d": "11-02 15:30 to 11-04 15:30",
		"2026-11-01T00:00:00Z,2026-11-02T00:00:00Z": "11-01 00:00 to 11-02 00:00", "1793491200,1793577600": "11-01 00:00 to 11-02 00:00",
		"": "wrong", "0d": "wrong", "-1h": "wrong", "a,b": "wrong", "2026-11-02T00:00:00Z,2026-11-01T00:00:00Z": "wrong", "forever": "wrong",
	} {
		got := "wrong"
		if p, err := Window(text, now); err == nil {
			got = p.From.Format("01-02 15:04") + " to " + p.To.Format("01-02 15:04")
		}
		if got != want {
			t.Errorf("window %q is %s, want %s", text, got, want)
		}
	}
}

func TestAllocationsAreTheReport(t *testing.T) {
	q := &Question{From: at(0), To: at(120), By: Namespace}
	r := NewReport(Sum(Account(lab(), q.From, q.To), q.By), nil, at(0), q, whole)
	sets, left := Allocations(r, true)
	got := ""
	for _, name := range []string{"vision", "speech", "__idle__"} {
		a := sets[name]
		got += fmt.Sprintf("%s %v %vh %v of %v; ", name, a.Properties["namespace"], a.GPUHours, a.TotalCost, a.Minutes)
	}
	if want := "vision vision 3h 1 of 120; speech speech 0.5h 0.25 of 120; __idle__  1.5h 0.75 of 120; "; got != want || len(sets) != 3 || len(left) > 0 {
		t.Errorf("the sets are %s, want %s; left out is %v", got, want, left)
	}
	if sets, _ := Allocations(r, false); len(sets) != 2 {
		t.Errorf("without idle there are %d sets", len(sets))
	}
	r.Rows[0].Currency = "EUR"
	if _, left := Allocations(r, true); len(left) == 0 {
		t.Error("another currency is left out without a word")
	}
}
