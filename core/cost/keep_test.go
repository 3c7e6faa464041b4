package cost

import (
	"testing"
	"time"
)

func TestKeep(t *testing.T) {
	day := func(n, hours int) time.Time { return epoch.Truncate(Day).Add(time.Duration(n*24+hours) * time.Hour) }
	kept := day(10, 0)
	for _, c := range []struct {
		name           string
		by             By
		from, to       time.Time
		wantFrom, want time.Time
		wrong          bool
	}{
		{name: "a time of which all facts are kept stays", by: NodeName, from: day(10, 5), to: day(11, 5), wantFrom: day(10, 5), want: day(11, 5)},
		{name: "before, sums of days are whole days", by: User, from: day(3, 5), to: day(7, 5), wantFrom: day(3, 0), want: day(8, 0)},
		{name: "only at the beginning, if the end has facts", by: User, from: day(3, 5), to: day(12, 5), wantFrom: day(3, 0), want: day(12, 5)},
		{name: "what is added up from facts begins with them", by: Workload, from: day(3, 5), to: day(12, 5), wantFrom: kept, want: day(12, 5)},
		{name: "and cannot be of a time before", by: "label:team", from: day(3, 5), to: day(10, 0), wantFrom: day(3, 5), want: day(10, 0), wrong: true},
	} {
		q := Question{From: c.from, To: c.to, By: c.by}
		if got := q.Keep(kept); (got != "") != c.wrong || !q.From.Equal(c.wantFrom) || !q.To.Equal(c.want) {
			t.Errorf("%s: from %v to %v, %q; want from %v to %v", c.name, q.From, q.To, got, c.wantFrom, c.want)
		}
	}
	q := Question{From: day(3, 5), To: day(4, 0), By: Workload}
	if got := q.Keep(time.Time{}); got != "" || !q.From.Equal(day(3, 5)) {
		t.Errorf("where all facts are kept the question becomes %+v, %q", q, got)
	}
}

func TestSplitMonths(t *testing.T) {
	month := func(m time.Month) time.Time { return time.Date(2026, m, 1, 0, 0, 0, 0, time.UTC) }
	whole, rest := SplitMonths(month(1).Add(Day), month(5), []time.Time{month(4), month(1), month(2)})
	if len(whole) != 2 || !whole[0].Equal(month(2)) || !whole[1].Equal(month(4)) || len(rest) != 2 || rest[1] != (Period{month(3), month(4)}) || rest[0].From != month(1).Add(Day) {
		t.Errorf("the months are %v, and between them %v", whole, rest)
	}
}
