package idle

import "time"

const (
	// gapPeriods is how many periods may lie between two readings of a GPU before it
	// counts as unread in between. Looks may be a little apart, and one may fail.
	gapPeriods = 3
	// slackPeriods is by how many periods more than a step a record may be behind:
	// twice what may have gone unread, before the old process ended and after.
	slackPeriods = 2 * gapPeriods
)

// Track is what one process knows of a notebook from its looks so far, counted by
// a monotonic clock. Its zero value is what a process that has just started
// knows: what it needs beyond is on the Notebook itself.
type Track struct {
	Seen bool          // there was a look
	Idle time.Duration // how long nothing had happened at that look, at least

	Newest time.Time     // of the stamps reported, by the server's clock
	Ahead  int64         // sum of the stamps that were in the future when they were last reported
	Asked  bool          // the server has reported its stamps once
	Quiet  time.Duration // since it last did

	Gauged bool          // GPUs have been read once
	Unread time.Duration // since they last were

	Active bool // it was in use at the last look that reported its use

	Unreported time.Duration // since a look last reported its use
	Forgotten  bool          // the record was to be taken away for that: Idle still holds

	EndsAt   time.Time     // the warning of the session's end that stands
	EndStood time.Duration // how long it has stood

	GivesAt   time.Time     // the warning that it gives way, if it stands
	GiveStood time.Duration // how long it has stood

	StopsAt time.Time     // the warning that stands
	Stood   time.Duration // how long it has stood
}

// use is what readings say about use.
type use struct {
	active bool   // now
	why    string // in what way
	stamps []time.Time
}

// next is the track after one more look. It never counts more time as idle than
// has passed without a sign of use:
//
//   - Time is counted by elapsed. The server's stamps only shorten it: to what they
//     say, and to nothing where they cannot be right. So a wall clock that is set,
//     here or there, makes nothing idle sooner.
//   - In use at one look means in use until shortly before the next.
//   - What was done while GPUs could not be read for gapPeriods is not known, and
//     counts as use.
//   - Without a record on the Notebook, idle time begins now, unless it was this
//     process that took the record away because looks failed. A new process takes
//     the record as older than it may be.
func (t Track) next(now time.Time, p Policy, s State, server Server, gpus GPUs, u use) Track {
	elapsed := max(0, s.Elapsed)
	if !t.Seen {
		behind := slackPeriods * p.Period
		if s.StopsAt.IsZero() {
			behind += p.step() // with a warning, the record is as new as the last look
		}
		t, elapsed = Track{Seen: true, Idle: max(0, now.Sub(s.Activity.Add(behind)))}, 0
	}
	t.Idle += elapsed
	t.Quiet += elapsed
	t.Unread += elapsed

	if server.Result != Failed {
		t.observe(now, append(u.stamps, s.Since))
		t.Asked, t.Quiet = true, 0
	}
	lost := t.Gauged && t.Unread > gapPeriods*p.Period
	if gpus.Result == OK {
		t.Gauged, t.Unread = true, 0
	} else if lost && gpus.Result == Absent {
		t.Gauged = false // no exporter publishes readings any longer
	}
	failed := server.Result == Failed || gpus.Result == Failed
	if t.Unreported += elapsed; !failed {
		t.Unreported = 0
	}
	t.Forgotten = t.Forgotten && s.Activity.IsZero()
	if u.active || t.Active || lost || s.Activity.IsZero() && !t.Forgotten {
		t.Idle = 0
	}
	t.Active = u.active || t.Active && failed
	t.warned(s, elapsed)
	return t
}

// observe takes the stamps that the server reported at now. Some may be of the future:
// of a clock that goes ahead of this one, or before this one was set back. What
// they mean is not known, so any change of them counts as use.
func (t *Track) observe(now time.Time, stamps []time.Time) {
	var past time.Time
	var ahead int64
	for _, at := range stamps {
		if at.After(now) {
			ahead += at.UnixNano()
		} else {
			past = later(past, at)
		}
	}
	if ahead != t.Ahead || t.Newest.After(now) {
		t.Idle, t.Newest, t.Ahead = 0, past, ahead
		return
	}
	if !past.After(t.Newest) {
		return
	}
	idle := now.Sub(past)
	if t.Asked && idle > t.Quiet {
		idle = 0 // it came since it was last asked: the clocks differ
	}
	t.Idle, t.Newest = min(t.Idle, idle), past
}

// warned counts how long the warning on the Notebook has stood.
func (t *Track) warned(s State, elapsed time.Duration) {
	if s.StopsAt.IsZero() || !s.StopsAt.Equal(t.StopsAt) {
		t.StopsAt, t.Stood = s.StopsAt, 0
		return
	}
	t.Stood += elapsed
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
