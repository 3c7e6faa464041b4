package forecast

import (
	"slices"
	"time"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
)

// promise is nodes that are reserved for a job from a time on.
type promise struct {
	job    *Job
	at     time.Duration
	ends   time.Duration       // when it is expected to have ended; never if nothing is known
	placed []cluster.Placement // as they would be
}

// uses reports whether a promise is for a node.
func (p *promise) uses(node int) bool {
	return slices.ContainsFunc(p.placed, func(o cluster.Placement) bool { return o.Node == node })
}

// keep reserves nodes for a job, if there is a time from which they are expected to be free. A promise of before this pass
// whose time has not passed only becomes earlier, and where that delays no other. It reports
// whether the promise is another than before.
func (t *Timeline) keep(j *Job, freed []int) (changed bool) {
	old := t.before
	had := slices.IndexFunc(old, func(p promise) bool { return p.job == j })
	others := slices.DeleteFunc(t.standing(), func(p promise) bool { return p.job == j })
	stays := had >= 0 && t.now <= old[had].at
	if stays && !slices.ContainsFunc(freed, func(n int) bool { return placement.Fit(t.bare, n, &j.Request) == placement.Fits }) {
		t.promises = append(t.promises, old[had])
		return false
	}
	p, ok := t.earliest(j, others)
	switch {
	case stays && (!ok || p.at >= old[had].at):
		t.promises = append(t.promises, old[had])
		return false
	case !ok:
		return had >= 0
	}
	t.promises = append(t.promises, p)
	t.reserve()
	if !t.promised[j] {
		if t.promised[j] = true; t.Promised != nil {
			t.Promised(j, p.at)
		}
	}
	return true
}

// standing is the promises of this pass, and those of before that it has not come to and whose time has not passed.
func (t *Timeline) standing() []promise {
	out := slices.Clone(t.promises)
	for i := range t.before {
		o := &t.before[i]
		if t.promised[o.job] && t.now <= o.at && !slices.ContainsFunc(out, func(p promise) bool { return p.job == o.job }) {
			out = append(out, *o)
		}
	}
	return out
}

// earliest finds the first time at which a job is expected to fit and delays none of others.
func (t *Timeline) earliest(j *Job, others []promise) (promise, bool) {
	t.refresh()
	length := t.expected(j, 0, backfillQuantile)
	w := &window{s: t.after, job: j, length: length, room: make([]int, t.after.Len()), later: others}
	m := w.s.Mark()
	defer w.s.RollBack(m)
	w.events(t.now, t.expects)
	if at, ok := w.first(t.now); ok {
		return promise{j, at, after(at, length), w.choose()}, true
	}
	return promise{}, false
}

// refresh estimates again those ends that were expected before now.
func (t *Timeline) refresh() {
	late, _ := slices.BinarySearchFunc(t.expects, t.now, func(o *run, now time.Duration) int {
		if o.expect < now {
			return -1
		}
		return 1
	})
	over := slices.Clone(t.expects[:late])
	t.expects = slices.Delete(t.expects, 0, late)
	for _, r := range over {
		t.expect(r)
	}
}

// hinders reports whether a job that is placed (assumed on the index's snapshot only) keeps the holder of a reservation
// from starting at its time. A promise holds although another job is more urgent by now.
func (t *Timeline) hinders(j *Job, placed []cluster.Placement) bool {
	ends := after(t.now, t.expected(j, 0, backfillQuantile))
	heeds := slices.DeleteFunc(t.standing(), func(p promise) bool { return p.job == j })
	for k := range heeds {
		p := &heeds[k]
		if ends <= p.at {
			continue
		}
		for i := range placed {
			if p.uses(placed[i].Node) && !t.beside(p, heeds, placed, placed[i].Node) {
				return true
			}
		}
	}
	return false
}

// beside reports whether on a node a promise can be held beside a job that is placed.
func (t *Timeline) beside(p *promise, heeds []promise, placed []cluster.Placement, node int) bool {
	s := t.after
	m := s.Mark()
	defer s.RollBack(m)
	for _, r := range t.on[node] {
		if r.expect > p.at {
			continue
		}
		for k := range r.placed {
			if r.placed[k].Node == node && s.Release(&r.placed[k]) != nil {
				return false
			}
		}
	}
	for i := range placed {
		if placed[i].Node == node && s.Assume(&placed[i]) != nil {
			return false
		}
	}
	for k := range heeds {
		o := &heeds[k]
		if o != p && (o.at > p.at || o.ends <= p.at) {
			continue
		}
		for i := range o.placed {
			if o.placed[i].Node == node && !assume(s, node, &o.placed[i].Request) {
				return false
			}
		}
	}
	return true
}

// assume places a request on a node, if it fits.
func assume(s *cluster.Snapshot, node int, r *cluster.Request) bool {
	if placement.Fit(s, node, r) != placement.Fits {
		return false
	}
	return s.Assume(&cluster.Placement{Node: node, Request: *r, Devices: take(s, node, r)}) == nil
}

// take chooses devices of a node that a request fits.
func take(s *cluster.Snapshot, node int, r *cluster.Request) []cluster.Device {
	q := s.Resolve(node, r)
	return placement.Take(s, node, &q, placement.LeastOpen, nil)
}

// reserve tells the index of nodes that are reserved, and unreserve of those that are not any longer.
func (t *Timeline) reserve() {
	for i := range t.promises {
		for k := range t.promises[i].placed {
			if n := t.promises[i].placed[k].Node; !t.reserved[n] {
				t.reserved[n] = true
				t.bar(n, true)
			}
		}
	}
}

func (t *Timeline) unreserve() (changed bool) {
	for n := range t.reserved {
		if !slices.ContainsFunc(t.promises, func(p promise) bool { return p.uses(n) }) {
			delete(t.reserved, n)
			t.bar(n, false)
			changed = true
		}
	}
	return changed
}

// bar keeps requests from a node that use none with a reservation, or lets them use it.
func (t *Timeline) bar(node int, reserved bool) {
	s := t.index.Snapshot()
	for _, class := range t.classes {
		v := s.Verdict(class, node)
		if reserved {
			v = cluster.Verdict{Reason: 1}
		}
		s.SetVerdict(class|unreserved, node, v)
	}
}

// know makes the class of requests that use no node with a reservation, for a class that is new.
func (t *Timeline) know(class uint32) {
	if slices.Contains(t.classes, class) {
		return
	}
	s := t.index.Snapshot()
	verdicts := make([]cluster.Verdict, s.Len())
	for n := range verdicts {
		if verdicts[n] = s.Verdict(class, n); t.reserved[n] {
			verdicts[n] = cluster.Verdict{Reason: 1}
		}
	}
	s.SetClass(class|unreserved, verdicts)
	t.classes = append(t.classes, class)
}
