package cost

import (
	"fmt"
	"testing"
	"time"
)

func TestStandingOf(t *testing.T) {
	// Half of November has passed.
	now := time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)
	week := Period{now.AddDate(0, 0, -7), now}
	held := func(queue, currency string, dollars int64) Row {
		return Row{Name: queue, Currency: currency, Micros: dollars * 1_000_000}
	}
	for _, c := range []struct {
		name          string
		budget        int64 // dollars
		month, recent []Row
		of            Period
		want          string
	}{
		{"nothing is spent", 1000, nil, nil, week, "0% of 1000, 0 now, 0 at the end, reached 0"},
		{"it goes on as in the last seven days", 1000, []Row{held("vision", "USD", 300)}, []Row{held("vision", "USD", 70)}, week, "30% of 1000, 300 now, 450 at the end, reached 0"},
		{"queues below count, and others do not", 1000, []Row{held("vision", "USD", 300), held("vision-a", "USD", 200), held("speech", "USD", 999)}, nil, week, "50% of 1000, 500 now, 500 at the end, reached 50"},
		{"a budget that runs out in this month", 1000, []Row{held("vision", "USD", 850)}, []Row{held("vision", "USD", 210)}, week, "85% of 1000, 850 now, 1300 at the end, reached 80, out 2026-11-21 00:00"},
		{"a budget that is spent", 1000, []Row{held("vision", "USD", 1200)}, []Row{held("vision", "USD", 70)}, week, "120% of 1000, 1200 now, 1350 at the end, reached 100, out 2026-11-16 00:00"},
		{"a ledger that began a day ago", 1000, []Row{held("vision", "USD", 10)}, []Row{held("vision", "USD", 10)}, Period{now.AddDate(0, 0, -1), now}, "1% of 1000, 10 now, 160 at the end, reached 0"},
		{"another currency, GPUs without a price, and idle ones do not count", 1000, []Row{held("vision", "EUR", 400), {Name: "vision", PartMillis: whole * 7_200_000, Unpriced: whole * 7_200_000}, {What: Idle, Currency: "USD", Micros: 5}}, nil, week, "0% of 1000, 0 now, 0 at the end, reached 0, others [{EUR 400000000}], 2h unpriced"},
	} {
		b := &Budget{Queue: "vision", Under: []string{"vision", "vision-a"}, Micros: c.budget * 1_000_000, Currency: "USD", WarnAt: []int{100, 50, 80}}
		s := StandingOf(b, c.month, c.recent, c.of, now, whole)
		got := fmt.Sprintf("%d%% of %d, %d now, %d at the end, reached %d", s.Percent, s.BudgetMicros/1_000_000, s.SpentMicros/1_000_000, s.ForecastMicros/1_000_000, s.Reached)
		if s.RunsOut != nil {
			got += ", out " + s.RunsOut.Format("2006-01-02 15:04")
		}
		if len(s.Others) > 0 {
			got += fmt.Sprintf(", others %v", s.Others)
		}
		if s.UnpricedGPUHours > 0 {
			got += fmt.Sprintf(", %vh unpriced", s.UnpricedGPUHours)
		}
		if got != c.want || s.Month != "2026-11" {
			t.Errorf("%s: %s of %s, want %s", c.name, got, s.Month, c.want)
		}
	}
}

func TestTimesOfABudget(t *testing.T) {
	now := time.Date(2026, 12, 31, 23, 59, 0, 0, time.FixedZone("west", -5*3600))
	if m := BudgetMonth(now); m.From.Format(time.DateOnly) != "2027-01-01" || m.To.Format(time.DateOnly) != "2027-02-01" {
		t.Errorf("the month of UTC is %v", m)
	}
	if r := RecentTime(at(90), at(-30)); !r.From.Equal(at(-60)) || !r.To.Equal(at(90)) {
		t.Errorf("the recent time of a young ledger is %v, want from the hour in which it began", r)
	}
	if r := RecentTime(at(90), at(-60*24*30)); r.To.Sub(r.From) != 7*24*time.Hour+30*time.Minute {
		t.Errorf("the recent time is %v, want seven days from a full hour on", r)
	}
}
