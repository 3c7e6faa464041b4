package forecast

import (
	"slices"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
)

// unreserved, added to the number of a class, is the class of the same requests that use no node with a reservation.
const unreserved uint32 = 1 << 31

// place places the pods of a job on the index's snapshot: where the policy likes it best, else on nodes without
// reservations, else as it is promised; nil is that it cannot be, or must not.
func (t *Timeline) place(j *Job) ([]cluster.Placement, state) {
	s := t.index.Snapshot()
	for i, find := range []func() []cluster.Placement{
		func() []cluster.Placement { return t.pods(j, 0) },
		func() []cluster.Placement { return t.pods(j, unreserved) },
		func() []cluster.Placement { return t.asPromised(j) },
	} {
		m := s.Mark()
		placed := find()
		if placed != nil && !t.hinders(j, placed) {
			s.Keep(m)
			return placed, untried
		}
		if s.RollBack(m); placed == nil && i == 0 {
			return nil, noRoom
		}
	}
	return nil, kept
}

// asPromised assumes the places that are reserved for a job; nil is that there are none, or that they are not free yet.
func (t *Timeline) asPromised(j *Job) []cluster.Placement {
	all := slices.Concat(t.promises, t.before)
	at := slices.IndexFunc(all, func(p promise) bool { return p.job == j })
	if at < 0 {
		return nil
	}
	s := t.index.Snapshot()
	var out []cluster.Placement
	for _, p := range all[at].placed {
		if placement.Fit(s, p.Node, &j.Request) != placement.Fits {
			return nil
		}
		p.Devices = t.index.Policy().Devices(s, p.Node, &j.Request, nil)
		if s.Assume(&p) != nil {
			return nil
		}
		out = append(out, p)
	}
	return out
}

// pods assumes places for all pods of a job, with unreserved added to its class or not; nil is that there are too few.
func (t *Timeline) pods(j *Job, class uint32) []cluster.Placement {
	r := j.Request
	r.Class |= class
	var out []cluster.Placement
	for range j.Pods {
		p, ok, err := placement.Place(t.index, &r)
		if !ok || err != nil {
			return nil
		}
		p.Request.Class = j.Request.Class
		out = append(out, p)
	}
	return out
}
