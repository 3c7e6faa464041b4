package sim

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
)

// jobRun is one run of Jobs under way: a scheduling queue around the machine, the
// lines and the planner.
type jobRun struct {
	index   *placement.Index
	planner gang.Planner
	gangs   *gang.Machine
	lines   *queue.Lines

	now     time.Time
	wakeAt  time.Time // when the machine wants to be stepped; zero is never
	pods    map[string]*jobPod
	ranks   map[string]gang.Rank // of members that were let into the queue
	active  []*jobPod            // the scheduling queue
	calls   []string             // pods to be put into it
	inside  *jobPod              // the pod of the scheduling cycle
	again   bool                 // it was called meanwhile
	running jobEnds
	started []Start
}

// jobPod is a pod. Its name is its UID.
type jobPod struct {
	name   string
	ticket queue.Ticket
	member gang.Pod // of a gang
	gang   bool
	run    time.Duration
	ask    cluster.Request

	out    bool               // it waits outside of the queue
	held   *cluster.Placement // what is held for it, or reserved; nil: nothing
	own    bool               // held is reserved
	permit bool               // it waits for the rest of its gang
	answer string             // "": none yet; "go"; else why it goes back
}

// arrive brings the pods of a job.
func (r *jobRun) arrive(j *Job) {
	for i := range j.Pods {
		name := fmt.Sprint(j.Name, "-", i)
		p := &jobPod{name: name, gang: j.Least > 0, run: j.Run + time.Duration(i)*j.Spread, ask: j.Request}
		p.ticket = queue.Ticket{Age: queue.Age{Created: epoch.Add(j.At), UID: name}, Priority: j.Priority}
		r.pods[name] = p
		if p.gang {
			p.member = gang.Pod{Age: p.ticket.Age, Name: name, Priority: j.Priority, Milli: j.Request.TotalMilli(), Gang: gang.Spec{Key: j.Name, Name: j.Name, Within: j.Within, Least: j.Least}}
			r.step(gang.Seen{Pod: p.member})
		}
		r.enqueue(p)
		r.drain()
	}
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
	return do.Answer
}

// release gives up what is held for a pod that has not got it yet.
func (r *jobRun) release(p *jobPod) {
	if p == nil || p.held == nil || p.own {
		return
	}
	r.free(p)
	r.calls = append(r.calls, r.lines.Wake(r.now)...)
}

// free makes room where a pod was, or was to be.
func (r *jobRun) free(p *jobPod) {
	if err := r.index.Snapshot().Release(p.held); err != nil {
		panic(fmt.Sprintf("pod %s leaves: %v", p.name, err)) // it was assumed
	}
	p.held, p.own = nil, false
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

// start has a pod run.
func (r *jobRun) start(p *jobPod) {
	node := r.index.Snapshot().Node(p.held.Node).Name
	r.started = append(r.started, Start{At: r.now.Sub(epoch), Pod: p.name, Node: node})
	if p.run > 0 {
		heap.Push(&r.running, jobEnd{at: r.now.Add(p.run), pod: p})
	}
	p.member.Node = node
	if p.gang {
		r.step(gang.Seen{Pod: p.member})
	}
}

// lose sends a pod back that had a place.
func (r *jobRun) lose(p *jobPod) {
	r.step(gang.Unreserved{UID: p.name})
	r.free(p)
	r.back(p)
	r.freed(p)
}

// end takes a pod out whose run is over.
func (r *jobRun) end(p *jobPod) {
	delete(r.pods, p.name)
	r.free(p)
	if p.gang {
		r.step(gang.Gone{UID: p.name})
	}
	r.freed(p)
}

// freed asks the pods that wait whether what one leaves is for them.
func (r *jobRun) freed(left *jobPod) {
	for _, name := range slices.Sorted(maps.Keys(r.pods)) {
		switch p := r.pods[name]; {
		case !p.out:
		case p.gang && !r.lines.Has(name): // one more member of a gang that runs waits as if it were alone
			r.step(gang.Freed{UID: name, Ended: true, Milli: left.ask.TotalMilli(), Priority: left.ticket.Priority})
		default:
			r.enqueue(p)
		}
	}
}

// back puts a pod outside of the queue, or into it if it was called meanwhile.
func (r *jobRun) back(p *jobPod) {
	if p.out = true; p == r.inside && r.again {
		r.enqueue(p)
	}
}
