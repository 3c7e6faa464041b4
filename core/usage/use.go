package usage

import "time"

// LowRatio is the utilization below which GPUs do next to nothing.
const LowRatio = 0.10

const (
	lowSettles = 30 * time.Second // for how long GPUs do next to nothing before that is noted
	mostUnread = 5 * time.Minute  // between two readings; what a pod did in a longer time is not known
)

// Activity is what a pod did with its GPUs at a moment, by a reading of them.
type Activity struct {
	At          time.Time
	Ratio       float64 // mean utilization of its devices, 0-1
	Busy        int     // devices with a utilization of at least LowRatio
	MemoryBytes int64   // in use on the device with the most
	Shared      bool    // the values are those of devices that other pods use too
}

// Use is what a pod did with its GPUs in a time without gaps, within an hour of the clock.
type Use struct {
	Pod         string // its UID
	From, To    time.Time
	Used        time.Duration // the time, weighted by the utilization
	Busy        int           // most devices that were busy at a reading
	MemoryBytes int64         // most that was in use on one device
	Shared      bool          // the values are those of devices that other pods use too
}

// Low is a time in which the GPUs of a pod did next to nothing.
type Low struct {
	Pod      string    // its UID
	From, To time.Time // To is zero while it goes on
	Shared   bool      // other pods use the devices too, and did nothing either
}

// Watch follows the readings of one pod. Each reading stands for the time since the one before, unless that is too long.
type Watch struct {
	use  Use
	last time.Time // of the last reading; zero is none
	low  time.Time // since when it does next to nothing; zero is that it works
}

// ResumeWatch returns a Watch of a pod that did next to nothing since a time, by readings up to another.
func ResumeWatch(low, last time.Time) *Watch { return &Watch{low: low, last: last} }

// Noted is what follows from a reading.
type Noted struct {
	Uses     []Use     // that have ended
	LowSince time.Time // zero if the pod works, or has done nothing only for a moment
	LowEnded time.Time // when the time before ended in which it did next to nothing; zero is that there was none, or that it goes on
}

// See takes the next reading of a pod. One that is not later than the last says nothing.
func (w *Watch) See(a Activity) (s Noted) {
	if !a.At.After(w.last) {
		s.LowSince = w.settled(w.last)
		return s
	}
	gap := w.last.IsZero() || a.At.Sub(w.last) > mostUnread
	if gap {
		s.Uses = w.Close()
		s.LowEnded = w.works()
	} else {
		s.Uses = w.count(a)
	}
	switch {
	case a.Ratio >= LowRatio && !w.low.IsZero():
		s.LowEnded = w.works()
	case a.Ratio < LowRatio && w.low.IsZero():
		w.low = a.At
		if !gap {
			w.low = w.last
		}
	}
	w.last = a.At
	s.LowSince = w.settled(a.At)
	return s
}

// settled is since when the pod has done next to nothing, if it has for so long that it is noted.
func (w *Watch) settled(now time.Time) time.Time {
	if w.low.IsZero() || now.Sub(w.low) < lowSettles {
		return time.Time{}
	}
	return w.low
}

// works notes that the pod works, or that it is not known, since the last reading, and returns that if it had been noted that it
// did next to nothing.
func (w *Watch) works() (ended time.Time) {
	if !w.settled(w.last).IsZero() {
		ended = w.last
	}
	w.low = time.Time{}
	return ended
}

// count adds the time up to a reading, and returns what has ended with an hour.
func (w *Watch) count(a Activity) (ended []Use) {
	for from := w.last; from.Before(a.At); {
		to := earlier(from.Truncate(time.Hour).Add(time.Hour), a.At)
		if w.use.From.IsZero() {
			w.use = Use{From: from}
		}
		u := &w.use
		u.To = to
		u.Used += time.Duration(float64(to.Sub(from)) * min(max(a.Ratio, 0), 1))
		u.Busy, u.MemoryBytes, u.Shared = max(u.Busy, a.Busy), max(u.MemoryBytes, a.MemoryBytes), u.Shared || a.Shared
		if to.Equal(to.Truncate(time.Hour)) {
			ended = append(ended, w.Close()...)
		}
		from = to
	}
	return ended
}

// Now returns what the pod has done since the last Use that ended; it has no length if nothing is known.
func (w *Watch) Now() Use { return w.use }

// Close ends what Now returns, and returns it if it has a length.
func (w *Watch) Close() []Use {
	u := w.use
	w.use = Use{}
	if !u.From.Before(u.To) {
		return nil
	}
	return []Use{u}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
