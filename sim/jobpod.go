package sim

import (
	"slices"
	"time"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/queue"
)

// terminates is how long an evicted pod takes to end.
const terminates = time.Second

// jobPod is a pod. Its name is its UID.
type jobPod struct {
	name   string
	job    *Job
	number int // in its job
	made   int // times that its controller has created it again
	ticket queue.Ticket
	member gang.Pod // of a gang
	gang   bool
	run    time.Duration
	ask    cluster.Request

	out    bool  // it waits outside of the queue
	yields bool  // there was a place for it, and another came first
	hold   *hold // what is held for it, or reserved; nil: nothing
	own    bool  // hold is reserved
	permit bool  // it waits for the rest of its gang
	answer string
	began  time.Time // zero: it does not run
	leaves bool      // it was evicted
}

// id names who may have a claim: a pod, or the gang that it is of.
func (p *jobPod) id() string {
	if p.gang {
		return p.job.Name
	}
	return p.name
}

// arrive brings the pods of a job.
func (r *jobRun) arrive(j *Job) {
	for i := range j.Pods {
		r.create(j, i, 0)
	}
}

// create brings a pod.
func (r *jobRun) create(j *Job, number, made int) {
	p := &jobPod{
		name: podName(j, number, made), job: j, number: number, made: made, gang: j.Least > 0,
		run: j.Run + time.Duration(number)*j.Spread, ask: j.Request,
	}
	if j.Run == 0 {
		p.run = 0
	}
	p.ticket = queue.Ticket{Age: queue.Age{Created: r.now, UID: p.name}, Priority: j.Priority}
	r.pods[p.name] = p
	if p.gang {
		p.member = gang.Pod{
			Age: p.ticket.Age, Name: p.name, Priority: j.Priority, Milli: j.Request.TotalMilli(), Replaced: j.Replace > 0,
			Gang: gang.Spec{Key: j.Name, Name: j.Name, Within: j.Within, Least: j.Least, Grace: j.Grace},
		}
		r.step(gang.Seen{Pod: p.member})
	}
	r.enqueue(p)
	r.drain()
}

// start has a pod run.
func (r *jobRun) start(p *jobPod) {
	node := r.index.Snapshot().Node(p.hold.Node).Name
	r.started = append(r.started, Start{At: r.now.Sub(epoch), Pod: p.name, Node: node})
	p.began = r.now
	if p.run > 0 {
		r.at(r.now.Add(p.run), ends, p.name, func() { r.end(p, false) })
	}
	r.enter(p)
	p.member.Node = node
	if p.gang {
		r.step(gang.Seen{Pod: p.member})
	}
	r.freed(r.keeper.Bound(r.turn(p), p.id(), node))
	r.arrived(p)
	r.shut(p)
}

// lose sends a pod back that had a place.
func (r *jobRun) lose(p *jobPod) {
	r.step(gang.Unreserved{UID: p.name})
	r.free(p)
	r.back(p)
	r.left(p)
}

// end takes a pod out that runs, because its run is over, or because it was lost or evicted: then its
// controller creates another.
func (r *jobRun) end(p *jobPod, lost bool) {
	if r.pods[p.name] != p {
		return // it has ended before
	}
	delete(r.pods, p.name)
	r.free(p)
	if p.gang {
		r.step(gang.Gone{UID: p.name})
	} else {
		r.freed(r.keeper.Left(p.name))
	}
	r.arrived(p)
	r.gone(p)
	r.left(p)
	if j := p.job; lost && j.Replace > 0 {
		r.at(r.now.Add(j.Replace), returns, p.name, func() { r.create(j, p.number, p.made+1) })
	}
}

// loss takes a pod out that runs, by the name that it had first.
func (r *jobRun) loss(name string) {
	for _, p := range r.pods {
		if podName(p.job, p.number, 0) == name && !p.began.IsZero() && !p.leaves {
			r.end(p, true)
			return
		}
	}
}

// evict has the pods of a gang end that is released.
func (r *jobRun) evict(e *gang.Evict) {
	for _, name := range e.Members {
		p := r.pods[name]
		p.leaves = true
		r.at(r.now.Add(terminates), ends, name, func() { r.end(p, true) })
		r.step(gang.Left{UID: name})
	}
}

// hold is devices that are held for a pod, or its own.
type hold struct {
	cluster.Placement                    // all of them
	part              *cluster.Placement // those that no other pod has, as they are assumed; nil: none
	reserved          bool               // it is kept for a claim
	serial            int
}

// complete reports whether no other pod has any of the devices.
func (h *hold) complete() bool { return h.part != nil && len(h.part.Devices) == len(h.Devices) }

// keep holds devices for a pod, in place of what was held for it before.
func (r *jobRun) keep(p *jobPod, at cluster.Placement, reserved bool) {
	if p.hold != nil {
		r.free(p)
	}
	r.serial++
	at.Ends = r.stay(p).Ends
	p.hold = &hold{Placement: at, reserved: reserved, serial: r.serial}
	r.take(p.hold)
}

// take assumes what is free of a hold.
func (r *jobRun) take(h *hold) {
	s := r.index.Snapshot()
	n, part := s.Node(h.Node), h.Placement
	part.Request.CPUMilli, part.Request.MemoryBytes = min(part.Request.CPUMilli, n.FreeCPUMilli), min(part.Request.MemoryBytes, n.FreeMemoryBytes)
	part.Devices = slices.DeleteFunc(slices.Clone(part.Devices), func(d cluster.Device) bool {
		m := s.Mark()
		err := s.Assume(&cluster.Placement{Node: h.Node, Request: cluster.Request{GPUs: 1}, Devices: []cluster.Device{d}})
		s.RollBack(m)
		return err != nil
	})
	part.Request.GPUs = int32(len(part.Devices))
	if h.part = nil; s.Assume(&part) == nil {
		h.part = &part
	}
}

// free makes room where a pod was, or was to be; what others have held there and could
// not have yet is theirs then.
func (r *jobRun) free(p *jobPod) {
	h, s := p.hold, r.index.Snapshot()
	p.hold, p.own = nil, false
	r.on[h.Node] = slices.DeleteFunc(r.on[h.Node], func(o *jobPod) bool { return o == p })
	give := func(h *hold) {
		if h.part == nil {
			return
		}
		if err := s.Release(h.part); err != nil {
			panic("pod " + p.name + " leaves: " + err.Error()) // it was assumed
		}
	}
	give(h)
	var waits []*hold
	for _, o := range r.pods {
		if o.hold != nil && o.hold.Node == h.Node && !o.hold.complete() {
			waits = append(waits, o.hold)
		}
	}
	slices.SortFunc(waits, func(a, b *hold) int { return a.serial - b.serial })
	for _, w := range waits {
		give(w)
		r.take(w)
	}
}

// enter notes that a pod is the last that has come to its node, or changed there.
func (r *jobRun) enter(p *jobPod) {
	at := p.hold.Node
	r.on[at] = append(slices.DeleteFunc(r.on[at], func(o *jobPod) bool { return o == p }), p)
}
