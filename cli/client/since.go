package client

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"berth.dev/berth/cli/term"
)

// Since reads a flag --since: a duration up to now (90m, 24h, 7d, 2w), a day (2026-11-02), or a month (2026-11), which ends with
// itself. Days and months are UTC, as those of the ledger are.
func Since(text string, now time.Time) (from, to time.Time, err error) {
	if month, err := time.Parse("2006-01", text); err == nil {
		return month, slices.MinFunc([]time.Time{month.AddDate(0, 1, 0), now}, time.Time.Compare), nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day, now, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), now, nil
	}
	for unit, days := range map[string]int{"d": 1, "w": 7} {
		number, ok := strings.CutSuffix(text, unit)
		if n, err := strconv.Atoi(number); ok && err == nil && n > 0 && n < 10_000 {
			return now.UTC().AddDate(0, 0, -n*days), now, nil // days of 24 hours, also where clocks were changed
		}
	}
	return from, to, term.Usagef("invalid --since %q: must be a duration such as 24h or 7d, a day such as 2026-11-02, or a month such as 2026-11", text)
}
