package forecast

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"time"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
)

// Fork returns a copy that goes on apart, with run times that draw gives to each job that runs or waits: how much longer
// it runs after it has run for a time. The copy learns nothing and calls none of the functions.
func (t *Timeline) Fork(policy placement.Maker, draw func(j *Job, ran time.Duration) time.Duration) *Timeline {
	f := &Timeline{
		rules: t.rules, times: t.times, now: t.now, waits: t.waits, serial: t.serial, lines: map[lineKey]*line{},
		promised: map[*Job]bool{}, reserved: map[int]bool{}, bare: t.bare, on: make([][]*run, len(t.on)), changed: true,
	}
	if t.quota != nil {
		f.quota = t.quota.Copy()
	}
	f.use(t.after, policy)
	for _, class := range t.classes {
		f.know(class)
	}
	byAge := func(a, b lineKey) int { return cmp.Compare(t.lines[a].serial, t.lines[b].serial) }
	for _, key := range slices.SortedFunc(maps.Keys(t.lines), byAge) { // draws may depend on the order
		l := t.lines[key]
		own := &line{serial: l.serial, state: l.state, jobs: make([]*Job, len(l.jobs))}
		for i, j := range l.jobs {
			one := *j
			one.Run = max(draw(j, 0), 1)
			own.jobs[i] = &one
		}
		f.lines[key] = own
	}
	for _, r := range t.expects { // in their order
		one, ran := *r.Job, t.now-r.began
		left := max(draw(r.Job, ran), 1)
		one.Run = after(left, ran)
		own := &run{Job: &one, began: r.began, ends: after(t.now, left), expect: r.expect, placed: slices.Clone(r.placed)}
		heap.Push(&f.running, own)
		f.expects = append(f.expects, own)
		for n := range nodesOf(own.placed) {
			f.on[n] = append(f.on[n], own)
		}
	}
	return f
}

// nodesOf are the nodes of placements.
func nodesOf(placed []cluster.Placement) map[int]bool {
	out := map[int]bool{}
	for i := range placed {
		out[placed[i].Node] = true
	}
	return out
}

// StartOf lets the copy go on until the job of a name has started, and returns when that is. later are jobs that come
// until then, by time. It gives up at the time until.
func (t *Timeline) StartOf(name string, later []*Job, until time.Duration) (at time.Duration, ok bool, err error) {
	started := false
	t.Started = func(j *Job) { started = started || j.Name == name }
	if err := t.pass(nil, nil); err != nil {
		return 0, false, err
	}
	for !started {
		end, runs := t.Next()
		switch {
		case len(later) > 0 && (!runs || later[0].At < end) && later[0].At <= until:
			err = t.Arrive(later[0])
			later = later[1:]
		case !runs || end > until:
			return 0, false, nil
		default:
			err = t.Step()
		}
		if err != nil {
			return 0, false, err
		}
	}
	return t.now, true, nil
}
