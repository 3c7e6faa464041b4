package forecast

import (
	"cmp"
	"slices"
	"time"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
)

// window looks for the first time at which a job fits, while others end and start.
type window struct {
	s      *cluster.Snapshot // with a mark open
	job    *Job
	length time.Duration // how long the job is expected to run
	list   []event       // by time
	later  []promise     // that have not begun at the time that is looked at
	room   []int         // pods of the job that fit each node, as last counted
	total  int
}

// event is something that is expected to happen.
type event struct {
	at     time.Duration
	ends   []cluster.Placement // of a job that runs
	begins *promise
	over   *promise
}

// kind orders events of one time: what ends comes before what begins.
func (e *event) kind() int {
	if e.begins != nil {
		return 1
	}
	return 0
}

// events lists what is expected: ends of running jobs, which are in order, and begins and ends of promises.
func (w *window) events(now time.Duration, runs []*run) {
	for _, r := range runs {
		if r.expect == never {
			break
		}
		w.list = append(w.list, event{at: r.expect, ends: r.placed})
	}
	for i := range w.later {
		p := &w.later[i]
		w.list = append(w.list, event{at: max(p.at, now), begins: p})
		if p.ends != never {
			w.list = append(w.list, event{at: max(p.ends, now), over: p})
		}
	}
	if len(w.later) > 0 {
		slices.SortStableFunc(w.list, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.kind(), b.kind())) })
	}
}

// first lets events happen until the job fits, and returns when that is.
func (w *window) first(now time.Duration) (time.Duration, bool) {
	w.later = slices.Clone(w.later)
	begun := map[*promise][]cluster.Placement{}
	if w.job.Pods > 1 || len(w.later) > 0 {
		for n := range w.room {
			w.count(n, now)
		}
	}
	if w.total >= w.job.Pods {
		return now, true
	}
	for i := range w.list {
		e := &w.list[i]
		w.happen(e, begun)
		for k := range w.later {
			for _, p := range w.later[k].placed {
				w.count(p.Node, e.at)
			}
		}
		if w.total >= w.job.Pods && (i+1 == len(w.list) || w.list[i+1].at > e.at) {
			return e.at, true
		}
	}
	return 0, false
}

// happen lets one event happen, and counts the nodes that it concerns again.
func (w *window) happen(e *event, begun map[*promise][]cluster.Placement) {
	var on []cluster.Placement
	switch {
	case e.begins != nil:
		w.later = slices.DeleteFunc(w.later, func(p promise) bool { return p.job == e.begins.job })
		on = e.begins.placed
		for k := range on {
			r := on[k].Request
			if placement.Fit(w.s, on[k].Node, &r) != placement.Fits {
				continue // what was expected has not come
			}
			p := cluster.Placement{Node: on[k].Node, Request: r, Devices: take(w.s, on[k].Node, &r)}
			if w.s.Assume(&p) == nil {
				begun[e.begins] = append(begun[e.begins], p)
			}
		}
	case e.over != nil:
		on = begun[e.over]
		for k := range on {
			_ = w.s.Release(&on[k])
		}
	default:
		on = e.ends
		for k := range on {
			_ = w.s.Release(&on[k])
		}
	}
	for k := range on {
		w.count(on[k].Node, e.at)
	}
}

// count counts the pods of the job that fit a node at a time. On a node that is reserved they have to end before.
func (w *window) count(n int, at time.Duration) {
	fit := 0
	if !slices.ContainsFunc(w.later, func(p promise) bool { return p.uses(n) && after(at, w.length) > p.at }) {
		fit = w.fits(n)
	}
	w.total += fit - w.room[n]
	w.room[n] = fit
}

// fits is how many pods of the job fit a node, up to all of them.
func (w *window) fits(n int) int {
	j := w.job
	if placement.Fit(w.s, n, &j.Request) != placement.Fits {
		return 0
	}
	if j.Pods == 1 {
		return 1
	}
	m := w.s.Mark()
	defer w.s.RollBack(m)
	k := 0
	for k < j.Pods && assume(w.s, n, &j.Request) {
		k++
	}
	return k
}

// choose places the job on nodes with room, in their order.
func (w *window) choose() []cluster.Placement {
	var out []cluster.Placement
	for n := 0; n < len(w.room) && len(out) < w.job.Pods; n++ {
		for k := 0; k < w.room[n] && len(out) < w.job.Pods; k++ {
			p := cluster.Placement{Node: n, Request: w.job.Request}
			p.Devices = take(w.s, n, &p.Request)
			if w.s.Assume(&p) != nil {
				break
			}
			out = append(out, p)
		}
	}
	return out
}
