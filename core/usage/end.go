package usage

import "time"

// leastOff is by how much a clock must be off to be corrected: what a node says comes late if the API server does not answer.
const leastOff = 10 * time.Minute

// Off is by how much the clock of a node is ahead, by a time that it has just said is now; 0 if that is little.
func Off(said, now time.Time) time.Duration {
	if off := said.Sub(now); off >= leastOff || off <= -leastOff {
		return off
	}
	return 0
}

// Ended returns when a pod ended that has held GPUs since a time, and how that is known. stated is what its node says, by a clock that is
// ahead by off; zero is that it does not say. last is when the pod was last seen to hold them. An end before the pod held anything, or in the
// future, was stated by a clock that is wrong: then the pod held them until it was last seen, and perhaps until now.
func Ended(stated, from, last, now time.Time, off time.Duration) (time.Time, End) {
	if stated.IsZero() {
		return now, End{Source: Seen}
	}
	at := stated.Add(-off)
	switch {
	case at.After(now.Add(time.Second)), at.Before(from.Add(-time.Second)): // what is stated is in seconds
		last = later(earlier(last, now), from)
		if !last.Before(now) {
			return later(now, from), End{Source: Seen}
		}
		return last, End{Source: LastSeen, Late: now.Sub(last)}
	case off != 0:
		return later(at, from), End{Source: Corrected}
	}
	return later(at, from), End{Source: Stated}
}
