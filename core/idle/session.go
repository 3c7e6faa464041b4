package idle

import "time"

// session returns the decision with the limit of sessions applied: a notebook whose
// session is about to end is warned and then stopped, used or not, unless idleness
// stops it sooner. As for idleness, one process must have seen the warning stand for
// its whole time, so what a clock that is set costs is a warning, never its time. p
// is fitted to idleness; warning is what the policy said before.
func (d Decision) session(now time.Time, p Policy, warning time.Duration, s State) Decision {
	if p.MaxSession <= 0 || s.Started.IsZero() || d.Do == Stop {
		return d
	}
	end := s.Started.Add(p.MaxSession)
	warning = max(0, min(warning, p.MaxSession/2))
	if now.Before(end.Add(-warning)) {
		return d
	}
	var stood time.Duration
	if was := s.Track.EndsAt; !was.IsZero() && s.StopsAt.Equal(was) {
		stood = s.Track.EndStood + max(0, s.Elapsed)
	}
	left := max(end.Sub(now), warning-stood, 0)
	at := now.Add(left + time.Second - 1).Truncate(time.Second)
	if !d.StopsAt.IsZero() && d.StopsAt.Before(at) && !d.StopsAt.Equal(s.Track.EndsAt) {
		return d // idle sooner
	}
	d.Session, d.Do, d.StopsAt = true, Nothing, s.StopsAt
	switch {
	case s.StopsAt.IsZero():
		d.Do, d.StopsAt = Warn, at
	case left == 0 && stood > 0:
		d.Do, d.StopsAt = Stop, time.Time{}
	case at.Sub(s.StopsAt).Abs() > max(p.Period, 2*time.Second):
		d.Do, d.StopsAt = Move, at
	}
	d.Track.EndsAt, d.Track.EndStood = d.StopsAt, stood
	d.Why = "its session has lasted " + spoken(now.Sub(s.Started)) + ", and may last " + spoken(p.MaxSession)
	return d
}
