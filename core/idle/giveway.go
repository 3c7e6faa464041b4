package idle

import "time"

// Grace is how long the warning of a notebook stands that gives way, at most: its policy's
// GiveWay, if that is less than twice as long, is halved for it.
const Grace = time.Minute

// giveWay returns the decision with those considered that wait for what the notebook holds: one
// that has been idle for GiveWay is warned and then stopped, unless it stops sooner anyway. As
// for idleness, one process must have seen the warning stand for its whole time. p is fitted.
func (d Decision) giveWay(now time.Time, p Policy, s State) Decision {
	t := &d.Track
	mine := !t.GivesAt.IsZero() && s.StopsAt.Equal(t.GivesAt)
	if s.Wanted == "" || p.GiveWay <= 0 || d.Do == Stop || d.Idle < p.GiveWay || d.Idle <= 0 {
		if mine && d.Do == Clear && d.Idle > 0 {
			d.Why = "no workload waits for what it holds any longer"
		}
		if d.Do == Clear {
			t.GivesAt, t.GiveStood = time.Time{}, 0
		}
		return d
	}
	grace := min(Grace, p.GiveWay/2)
	at := now.Add(grace + time.Second - 1).Truncate(time.Second)
	var stood time.Duration
	switch {
	case mine:
		stood = t.GiveStood + max(0, s.Elapsed)
	case d.Do != Clear && !s.StopsAt.IsZero() && !s.StopsAt.After(at):
		return d // it stops sooner
	}
	switch {
	case !mine:
		d.Do, d.StopsAt = Warn, at
		t.GivesAt = at
	case stood >= grace:
		d.Do, d.StopsAt = Stop, time.Time{}
		t.GivesAt = time.Time{}
	default:
		d.Do, d.StopsAt = Nothing, s.StopsAt
	}
	t.GiveStood = stood
	d.GiveWay, d.Why = true, "nothing has happened in it for "+spoken(t.Idle)+", and "+s.Wanted
	return d
}
