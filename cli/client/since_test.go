package client

import (
	"testing"
	"time"
	_ "time/tzdata"
)

func TestSince(t *testing.T) {
	for text, want := range map[string]string{
		"24h":        "2026-11-23 15:04 to 2026-11-24 15:04",
		"7d":         "2026-11-17 15:04 to 2026-11-24 15:04",
		"2w":         "2026-11-10 15:04 to 2026-11-24 15:04",
		"2026-11-02": "2026-11-02 00:00 to 2026-11-24 15:04",
		"2026-11":    "2026-11-01 00:00 to 2026-11-24 15:04",
		"2026-10":    "2026-10-01 00:00 to 2026-11-01 00:00",
		"0d":         "invalid", "-1h": "invalid", "d": "invalid", "": "invalid", "2026-13": "invalid", "99999d": "invalid",
	} {
		got := "invalid"
		if from, to, err := Since(text, time.Date(2026, 11, 24, 15, 4, 5, 0, time.UTC)); err == nil {
			got = from.Format("2006-01-02 15:04") + " to " + to.Format("2006-01-02 15:04")
		}
		if got != want {
			t.Errorf("--since %q is %s, want %s", text, got, want)
		}
	}
}

// TestADayHas24Hours asks after a night in which clocks were set back.
func TestADayHas24Hours(t *testing.T) {
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	from, to, err := Since("7d", time.Date(2026, 11, 3, 9, 0, 0, 0, zone))
	if err != nil || to.Sub(from) != 7*24*time.Hour {
		t.Errorf("7d is %v, %v", to.Sub(from), err)
	}
}
