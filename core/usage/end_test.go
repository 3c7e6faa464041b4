package usage

import (
	"testing"
	"time"
)

func TestEnded(t *testing.T) {
	const hour = time.Hour
	for _, c := range []struct {
		name               string
		stated, last, from int // minutes; -1 is never
		off                time.Duration
		at                 int
		end                End
	}{
		{"as the object says", 30, 0, 10, 0, 30, End{Source: Stated}},
		{"now, if it does not say", -1, 0, 10, 0, 60, End{Source: Seen}},
		{"a clock that is known to be an hour ahead is corrected", 90, 60, 10, hour, 30, End{Source: Corrected}},
		{"one that is an hour behind, too", -30, 60, 10, -hour, 30, End{Source: Corrected}},
		{"in the future, of a pod that was seen until now", 90, 60, 10, 0, 60, End{Source: Seen}},
		{"in the future, of a pod that was last seen a while ago", 90, 20, 10, 0, 20, End{Source: LastSeen, Late: 40 * time.Minute}},
		{"before it began, of a pod that was seen until now", 5, 60, 10, 0, 60, End{Source: Seen}},
		{"before it began, of a pod that was not seen at all", 5, 0, 10, 0, 10, End{Source: LastSeen, Late: 50 * time.Minute}},
	} {
		stated := at(c.stated)
		if c.stated == -1 {
			stated = time.Time{}
		}
		when, end := Ended(stated, at(c.from), at(c.last), at(60), c.off)
		if !when.Equal(at(c.at)) || end != c.end {
			t.Errorf("%s: ended at minute %v, %+v; want %d, %+v", c.name, when.Sub(epoch).Minutes(), end, c.at, c.end)
		}
	}
}

func TestOff(t *testing.T) {
	for said, want := range map[int]time.Duration{120: time.Hour, 0: -time.Hour, 65: 0, 55: 0} {
		if got := Off(at(said), at(60)); got != want {
			t.Errorf("a node that says minute %d at minute 60 is off by %v, want %v", said, got, want)
		}
	}
}
