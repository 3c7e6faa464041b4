package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
)

// jobRun is one run of Jobs under way: a scheduling queue around the machine, the
// lines, the planner, and the places that are kept.
type jobRun struct {
	index    *placement.Index
	planner  gang.Planner
	gangs    *gang.Machine
	lines    *queue.Lines
	keeper   *queue.Keeper[*jobPod]
	reserves bool // places are kept

	now     time.Time
	wakeAt  time.Time // when the machine wants to be stepped; zero is never
	timed   times
	serial  int
	lease   time.Time // when the leases are looked at; zero is never
	pods    map[string]*jobPod
	ranks   map[string]gang.Rank // of members that were let into the queue
	active  []*jobPod            // the scheduling queue
	calls   []string             // pods to be put into it
	inside  *jobPod              // the pod of the scheduling cycle
	again   bool                 // it was called meanwhile
	rooms   map[string]*jobRoom  // that are being made, by pod
	lent    map[string][]lent    // by claim: what its pods held when guests got places of it
	on      [][]*jobPod          // pods on each node, those that came last at the end
	started []Start
}

// step steps the machine and does what it says.
func (r *jobRun) step(e gang.Event) gang.Answer {
	do := r.gangs.Step(e, r.now)
	r.wakeAt = do.WakeAt
	for _, rank := range do.Ranks {
		if r.ranks[rank.UID] = rank; rank.Ends {
			delete(r.ranks, rank.UID)
		} else if p := r.pods[rank.UID]; p != nil {
			r.lines.Rank(r.turn(p))
		}
	}
	for _, name := range do.Permit {
		r.pods[name].answer = "go"
	}
	for _, name := range do.Release {
		r.release(r.pods[name])
	}
	for _, name := range do.Leave {
		r.calls = append(r.calls, r.lines.Leave(name, r.now)...)
	}
	for _, back := range do.Return {
		r.pods[back.UID].answer = back.Reason
	}
	wake := slices.Clone(do.Wake)
	slices.Sort(wake)
	r.calls = append(r.calls, wake...)
	if do.Evict != nil {
		r.evict(do.Evict)
	}
	for _, key := range do.Ended {
		r.freed(r.keeper.Left(key))
	}
	return do.Answer
}

// release gives up what is held for a pod that has not got it yet.
func (r *jobRun) release(p *jobPod) {
	if p == nil || p.hold == nil || p.own {
		return
	}
	r.free(p)
	r.calls = append(r.calls, r.lines.Wake(r.now)...)
}

// freed calls those who wait if places are free that were kept.
func (r *jobRun) freed(free bool) {
	if free {
		r.step(gang.Unkept{})
		r.calls = append(r.calls, r.lines.Wake(r.now)...)
	}
}

// drain puts the pods that were called into the queue.
func (r *jobRun) drain() {
	for len(r.calls) > 0 {
		p := r.pods[r.calls[0]]
		r.calls = r.calls[1:]
		switch {
		case p == nil:
		case p.out:
			r.enqueue(p)
		case p == r.inside:
			r.again = true
		}
	}
}

// enqueue lets a pod into the queue if its gang and its line do.
func (r *jobRun) enqueue(p *jobPod) {
	p.out = true
	if p.gang && r.step(gang.Enqueue{Pod: p.member}).Reason != "" || !r.lines.Admits(p.name) {
		return
	}
	p.out = false
	r.active = append(r.active, p)
}

// turn is when it is a pod's turn.
func (r *jobRun) turn(p *jobPod) queue.Ticket {
	t := p.ticket
	if rank, ok := r.ranks[p.name]; ok {
		t.Gang, t.Partial, t.Over = rank.Oldest, rank.Partial, rank.Over
	}
	return t
}

// settle schedules until nothing is left to do.
func (r *jobRun) settle() error {
	for {
		r.drain()
		if r.permitted() {
			continue
		}
		if len(r.active) == 0 {
			return nil
		}
		next := slices.MinFunc(r.active, func(a, b *jobPod) int { return queue.Compare(r.turn(a), r.turn(b)) })
		r.active = slices.DeleteFunc(r.active, func(p *jobPod) bool { return p == next })
		if err := r.cycle(next); err != nil {
			return err
		}
	}
}

// permitted ends the wait of one pod that has its answer, and reports whether there
// was one.
func (r *jobRun) permitted() bool {
	for _, name := range slices.Sorted(maps.Keys(r.pods)) {
		p := r.pods[name]
		if !p.permit || p.answer == "" {
			continue
		}
		goes := p.answer == "go"
		if p.permit = false; goes {
			r.start(p)
		} else {
			r.lose(p)
		}
		p.answer = ""
		return true
	}
	return false
}

// back puts a pod outside of the queue, or into it if it was called meanwhile.
func (r *jobRun) back(p *jobPod) {
	if p.out = true; p == r.inside && r.again {
		r.enqueue(p)
	}
}

// left asks the pods that wait whether what one leaves is for them.
func (r *jobRun) left(gone *jobPod) {
	for _, name := range slices.Sorted(maps.Keys(r.pods)) {
		switch p := r.pods[name]; {
		case !p.out:
		case p.gang && !r.lines.Has(name): // one more member of a gang that runs waits as if it were alone
			r.step(gang.Freed{UID: name, Ended: true, Milli: gone.ask.TotalMilli(), Priority: gone.ticket.Priority})
		default:
			r.enqueue(p)
		}
	}
}

func podName(j *Job, i, made int) string {
	if made == 0 {
		return fmt.Sprint(j.Name, "-", i)
	}
	return fmt.Sprint(j.Name, "-", i, "-r", made)
}
