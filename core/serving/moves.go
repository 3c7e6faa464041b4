package serving

// Replica is one that there is, as far as its node matters.
type Replica struct {
	Ready  bool
	Leaves bool // its node is to be emptied
}

// Extra is how many replicas there are to be beyond the wanted ones while some leave their nodes: one in the place of each that leaves, until
// as many as are wanted answer elsewhere. During a rollout none: it replaces all of them.
func Extra(wanted int, replicas []Replica, rolling bool) int {
	if rolling || Staying(replicas) >= wanted {
		return 0
	}
	leave := 0
	for _, r := range replicas {
		if r.Leaves {
			leave++
		}
	}
	return min(leave, wanted)
}

// Staying is how many replicas answer and do not leave their nodes.
func Staying(replicas []Replica) (n int) {
	for _, r := range replicas {
		if r.Ready && !r.Leaves {
			n++
		}
	}
	return n
}

// Budget is how many replicas have to answer after an eviction that others ask for, as `kubectl drain` does. ok is false if any may be evicted.
// From two on, replicas are evicted one after the other, unless the user does not want that. While some leave their nodes, as many as are
// wanted have to answer until their places elsewhere are ready. If there is no room for one, or its model cannot be loaded, nothing else would
// end the wait: those that leave may be evicted, one after the other, and the others may not.
func (s *Seen) Budget() (least int, ok bool) {
	switch {
	case s.Wanted == 0:
		return 0, false
	case s.Leaves == "":
		return s.Wanted - 1, s.Wanted > 1 && !s.Service.Unprotected
	case s.Waits == "" && s.Fault == nil:
		return s.Wanted, true
	}
	return max(s.Stay, min(s.Wanted, s.Ready)-1, 0), true
}
