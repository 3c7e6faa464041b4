package sim

import (
	"slices"
	"time"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/preemption"
)

// lookAgain is when a pod that room is made for is tried once more.
const lookAgain = time.Second

// jobRoom is made for one pod, or for the members of a gang together, while others end.
type jobRoom struct {
	pods     []*jobPod
	lead     *jobPod
	waits    []*jobPod // those who have to be gone
	reserved bool      // it is kept for a claim
}

// all is the pods of the room, and its lead.
func (m *jobRoom) all() []*jobPod {
	if slices.Contains(m.pods, m.lead) {
		return m.pods
	}
	return append(slices.Clip(m.pods), m.lead)
}

// there counts who is there yet of those that a room waits for.
func (r *jobRun) there(m *jobRoom) int {
	n := 0
	for _, p := range m.waits {
		if r.pods[p.name] == p {
			n++
		}
	}
	return n
}

// held reports whether something is still held for a pod of a room, which may be nil.
func held(m *jobRoom) bool {
	return m != nil && slices.ContainsFunc(m.pods, func(p *jobPod) bool { return p.hold != nil && !p.own })
}

// shut forgets the room of a pod, that of its whole gang.
func (r *jobRun) shut(p *jobPod) {
	m := r.rooms[p.name]
	if m == nil {
		return
	}
	for _, o := range m.all() {
		if r.rooms[o.name] == m {
			delete(r.rooms, o.name)
		}
	}
}

// gone calls the pods whose room is complete now that a pod is gone.
func (r *jobRun) gone(p *jobPod) {
	delete(r.rooms, p.name)
	var ready []string
	for name, m := range r.rooms {
		if slices.Contains(m.waits, p) && r.there(m) == 0 {
			ready = append(ready, name)
		}
	}
	slices.Sort(ready)
	r.calls = append(r.calls, ready...)
}

// roomOfGang reports whether the gang of a member waits for room. A room that is complete
// becomes the gang's plan.
func (r *jobRun) roomOfGang(p *jobPod) bool {
	m := r.rooms[p.name]
	if !held(m) {
		return false
	}
	there := r.there(m)
	if there > 0 && !m.reserved {
		return true
	}
	r.shut(p)
	if there > 0 { // there may be another place by now
		for _, o := range m.pods {
			r.withdraw(o)
		}
		return false
	}
	task, _ := r.gangs.Task(p.name, false, r.now)
	if task == nil {
		return false
	}
	nodes := map[string]string{}
	for _, name := range task.Members {
		if h := r.pods[name].hold; h != nil {
			nodes[name] = r.index.Snapshot().Node(h.Node).Name
		}
	}
	if len(nodes) >= task.Need {
		r.step(gang.Placed{UID: p.name, Task: task, Nodes: nodes})
		return false
	}
	for _, name := range task.Members {
		r.release(r.pods[name])
	}
	return false
}

// withdraw releases what is held for a pod, and calls no other.
func (r *jobRun) withdraw(p *jobPod) {
	if p.hold != nil && !p.own {
		r.free(p)
	}
}

// tellBroken lets pods whose holds went to others look for another place.
func (r *jobRun) tellBroken(pods []*jobPod) {
	var names []string
	for _, p := range pods {
		r.shut(p)
		r.step(gang.HoldLost{UID: p.name})
		names = append(names, p.name)
	}
	if slices.Sort(names); len(names) > 0 {
		r.calls = append(append(r.calls, names...), r.lines.Wake(r.now)...)
	}
}

// open notes a room, and has its pods tried when it is complete.
func (r *jobRun) open(m *jobRoom) {
	for _, p := range m.pods {
		r.calls = append(r.calls, r.lines.Leave(p.name, r.now)...)
	}
	for _, p := range m.all() {
		r.rooms[p.name] = m
	}
	if len(m.waits) > 0 {
		after := lookAgain
		if m.reserved {
			after = preemption.AwaitAgain(r.index.Snapshot().Len())
		}
		r.at(r.now.Add(after), looks, m.lead.name, func() { r.calls = append(r.calls, m.lead.name) })
		return
	}
	var names []string
	for _, p := range m.pods {
		names = append(names, p.name)
	}
	slices.Sort(names)
	r.calls = append(r.calls, names...)
}

// waitForLease has the leases looked at when the next one ends.
func (r *jobRun) waitForLease() {
	next := r.keeper.Next()
	if r.lease = next; !next.IsZero() {
		r.at(next, leases, "", func() {
			if next.Equal(r.lease) {
				r.expire()
			}
		})
	}
}

// expire releases what is kept for claims whose lease is over.
func (r *jobRun) expire() {
	over := r.keeper.Expire(r.now)
	r.waitForLease()
	for _, k := range over {
		r.shut(k.Lead)
		for _, p := range k.Pods {
			r.release(p)
		}
		r.calls = append(r.calls, k.Lead.name)
	}
	r.freed(len(over) > 0)
}
