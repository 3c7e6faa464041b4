package forecast

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"berth.dev/berth/core/placement"
)

// How sure it has to be that a job ends before a reservation begins, and that what a reservation waits for has ended: so
// many earlier runs had. A reservation waits for many jobs, and one that goes on is enough to break it.
const (
	backfillQuantile = 0.9
	endQuantile      = 0.97
)

// pass tries the first of each line in order: those that may have room now that nodes were freed, and those of a line
// that has a new first. If only is not nil, nothing was freed, and the reservations that there are stay.
func (t *Timeline) pass(freed []int, only *line) error {
	if only != nil && t.rules.Strict && t.waits > len(only.jobs) {
		return nil // others came before
	}
	var order turns
	if only != nil {
		order.add(turn{line: only})
	} else {
		order.first = t.inOrder()
		t.before, t.promises = t.promises, nil
	}
	again := func(l *line) {
		if len(l.jobs) > 0 {
			order.add(turn{l, t.urgency(l.jobs[0])})
		}
	}
	changed := t.changed
	for order.some() {
		next := order.next()
		job, had := next.jobs[0], t.promised[next.jobs[0]]
		started, err := t.try(next.line, freed, changed)
		switch {
		case err != nil:
			return err
		case started:
			changed = changed || had
			again(next.line)
		case t.rules.Strict:
			t.before = nil
			return nil
		case next.state == noQuota: // a place would be of no use to it
		case t.mayReserve(job, only != nil):
			if !t.keep(job, freed) {
				break
			}
			changed = true
			if last := len(t.promises) - 1; last >= 0 && t.promises[last].job == job && t.promises[last].at <= t.now {
				next.state = untried
				if started, err = t.try(next.line, freed, changed); err != nil {
					return err
				}
				if started {
					again(next.line)
				}
			}
		}
	}
	if only == nil {
		t.before = nil
		t.changed = t.unreserve()
	}
	return nil
}

// mayReserve reports whether a job that does not fit gets a reservation: it has one, or one is left. One that has just
// come gets it only if all others have one.
func (t *Timeline) mayReserve(j *Job, arrives bool) bool {
	all := t.standing()
	switch {
	case j.GPUs < t.rules.Least || t.rules.Reservations == 0:
		return false
	case slices.ContainsFunc(all, func(p promise) bool { return p.job == j }):
		return true
	}
	return len(all) < t.rules.Reservations && (!arrives || t.waits-1 <= len(all))
}

// try starts the first of a line if it fits and is in the way of no reservation. changed is that a reservation of this
// pass is not what it was.
func (t *Timeline) try(l *line, freed []int, changed bool) (bool, error) {
	j := l.jobs[0]
	if t.quota != nil {
		switch admitted := t.quota.Admits(j); {
		case !admitted:
			l.state = noQuota
			return false, nil
		case l.state == noQuota:
			l.state = untried
		}
	}
	if l.state == noRoom || l.state == kept && !changed {
		fits := slices.ContainsFunc(freed, func(n int) bool { return placement.Fit(t.index.Snapshot(), n, &j.Request) == placement.Fits })
		if !fits {
			return false, nil
		}
	}
	placed, now := t.place(j)
	if l.state = now; placed == nil {
		return false, nil
	}
	r := &run{Job: j, began: t.now, ends: t.now + max(j.Run, 1), placed: placed}
	for i := range placed {
		p := &placed[i]
		if err := t.after.Assume(p); err != nil {
			return false, fmt.Errorf("the start of %s: %w", j.Name, err)
		}
		if on := t.on[p.Node]; len(on) == 0 || on[len(on)-1] != r {
			t.on[p.Node] = append(on, r)
		}
	}
	if t.quota != nil {
		t.quota.Starts(j)
	}
	heap.Push(&t.running, r)
	t.expect(r)
	l.jobs = l.jobs[1:]
	if t.waits--; len(l.jobs) == 0 {
		delete(t.lines, lineKey{j.Template.Name, j.Request, j.Pods})
		l.listed = false
	}
	delete(t.promised, j)
	t.promises = slices.DeleteFunc(t.promises, func(p promise) bool { return p.job == j })
	if l.state = untried; t.Started != nil {
		t.Started(j)
	}
	return true, nil
}

// expect puts a run among those that run, by when it is expected to have ended.
func (t *Timeline) expect(r *run) {
	r.expect = after(t.now, t.expected(r.Job, t.now-r.began, endQuantile))
	at, _ := slices.BinarySearchFunc(t.expects, r.expect, func(o *run, at time.Duration) int {
		if o.expect <= at {
			return -1
		}
		return 1
	})
	t.expects = slices.Insert(t.expects, at, r)
}
