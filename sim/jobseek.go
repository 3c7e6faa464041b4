package sim

import (
	"cmp"
	"slices"
	"time"

	"berth.dev/berth/core/gang"
	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/preemption"
	"berth.dev/berth/core/queue"
)

// seeker is who needs room.
type seeker struct {
	lead    *jobPod
	pods    []*jobPod // in the order in which they are placed
	least   int       // of them; 0 is all
	gang    string
	domains [][]int32 // of nodes, in one of which all must be; nil is all nodes
	avoid   []string  // nodes
	awaits  bool      // it waits for the ends of others
}

// makeRoom makes room for one pod, by what is kept for those that come after it, or keeps
// a place for it.
func (r *jobRun) makeRoom(p *jobPod) {
	switch {
	case !r.reserves, p.gang && (p.job.Within < gang.Cluster || r.gangs.Least(p.job.Name) == 0):
		return
	case held(r.rooms[p.name]) && r.there(r.rooms[p.name]) > 0:
		return
	}
	r.shut(p)
	if p.hold != nil {
		r.release(p)
		r.calls = append(r.calls, p.name)
		return
	}
	w := &seeker{lead: p, pods: []*jobPod{p}}
	if p.gang {
		w.gang = p.job.Name
	}
	if r.takeKept(w) {
		r.freed(r.keeper.Lapsed(p.id()))
	} else if !p.gang {
		r.await(w, lineOf(p))
	}
}

// makeRoomForGang does the same for the gang that a pod leads. It reports whether there
// was something to plan.
func (r *jobRun) makeRoomForGang(p *jobPod) bool {
	task, reason := r.gangs.Task(p.name, false, r.now)
	switch {
	case !r.reserves || task == nil || reason != "":
		return false
	case held(r.rooms[p.name]) && r.there(r.rooms[p.name]) > 0:
		return true
	}
	r.shut(p)
	w := &seeker{lead: p, least: task.Need, gang: task.Gang.Key}
	for _, name := range task.Members {
		r.release(r.pods[name])
		w.pods = append(w.pods, r.pods[name])
	}
	slices.SortStableFunc(w.pods, func(a, b *jobPod) int { return cmp.Compare(b.ask.GPUs, a.ask.GPUs) })
	for _, nodes := range task.Avoid {
		w.avoid = append(w.avoid, nodes...)
	}
	if task.Gang.Within < gang.Cluster {
		w.domains = r.domains(task)
	}
	made := r.takeKept(w)
	if made {
		r.freed(r.keeper.Lapsed(p.id()))
	} else if !task.Extra {
		made = r.await(w, task.Gang.Key)
	}
	if made && !task.Extra {
		r.step(gang.Preempting{UID: p.name, Reserved: w.awaits})
	}
	return true
}

// domains are the sets of nodes in one of which the members of a gang must be.
func (r *jobRun) domains(task *gang.Task) [][]int32 {
	out := [][]int32{}
	if task.Gang.Within < gang.Node {
		return out
	}
	s := r.index.Snapshot()
	for _, d := range r.planner.Topology.Domains(task.Gang.Within, s.Len()) {
		away := func(node string) bool {
			i, ok := s.Find(node)
			return !ok || !slices.Contains(d, int32(i))
		}
		if !slices.ContainsFunc(task.Near, away) {
			out = append(out, d)
		}
	}
	return out
}

// await keeps a place for w that comes free when others end, if w has a claim to one.
func (r *jobRun) await(w *seeker, line string) bool {
	claim, ok := r.keeper.Refused(&queue.Waiter{
		Ticket: r.turn(w.lead), ID: w.lead.id(), Line: line, Since: r.now, Uses: r.uses(w.lead),
	}, r.now)
	if !ok {
		r.freed(r.keeper.Lapsed(w.lead.id()))
		return false
	}
	avoid := w.avoid
	w.awaits = true
	for _, nodes := range claim.Tries() {
		w.avoid = slices.Concat(nodes, avoid)
		if m, nodes := r.tryRoom(w); m != nil {
			r.keeper.Keep(&claim, w.lead, m.pods, m.waits, nodes, r.allEnded(m.waits))
			r.waitForLease()
			return true
		}
	}
	if r.keeper.Lends(claim.ID) {
		r.holdAgain(r.lent[claim.ID])
	}
	r.freed(r.keeper.Vain(claim.ID, r.now))
	return false
}

// lent is a pod and what it held beside a guest.
type lent struct {
	pod  *jobPod
	hold *hold
}

// holdAgain holds again what was given up, less what is held for others now.
func (r *jobRun) holdAgain(list []lent) {
	for _, l := range list {
		if r.pods[l.pod.name] == l.pod && !l.pod.own {
			r.keep(l.pod, l.hold.Placement, l.hold.reserved)
		}
	}
}

// uses reports which nodes a pod could use if they were free.
func (r *jobRun) uses(p *jobPod) func(node string) bool {
	s := r.index.Snapshot()
	return func(node string) bool {
		i, ok := s.Find(node)
		return ok && len(s.Cards(i)) >= int(min(p.ask.GPUs, 1))
	}
}

// allEnded is when pods have ended, if all declare that; else it is zero.
func (r *jobRun) allEnded(pods []*jobPod) time.Time {
	var ends []time.Time
	for _, p := range pods {
		ends = append(ends, p.ends())
	}
	return queue.AllEnded(ends, r.now)
}

// ends is when a pod that runs ends, as it declares; zero is that it does not.
func (p *jobPod) ends() time.Time {
	if !p.job.Declared || p.began.IsZero() || p.run <= 0 {
		return time.Time{}
	}
	return p.began.Add(p.run)
}

// declared is how long the longest of pods runs, if all declare that; else it is 0.
func declared(pods ...*jobPod) (most time.Duration) {
	for _, p := range pods {
		if !p.job.Declared || p.run <= 0 {
			return 0
		}
		most = max(most, p.run)
	}
	return most
}

// stay is how long pods stay that are placed now.
func (r *jobRun) stay(pods ...*jobPod) placement.Stay {
	return placement.StayOf(r.now, declared(pods...))
}

// opened is what is kept for others, and not from w.
func (r *jobRun) opened(w *seeker) []queue.Kept[*jobPod] {
	ends := time.Time{}
	if most := declared(w.pods...); most > 0 {
		ends = r.now.Add(most)
	}
	open, _ := r.keeper.Open(r.turn(w.lead), ends)
	return open
}

// lend notes what pods of hosts hold beside their guests.
func (r *jobRun) lend(hosts []queue.Kept[*jobPod]) {
	for i := range hosts {
		var list []lent
		for _, p := range hosts[i].Pods {
			if p.hold != nil {
				list = append(list, lent{p, p.hold})
			}
		}
		r.lent[hosts[i].ID] = list
	}
}

// arrived takes a pod that has started, or is gone. Those whose places it had are tried again, and keep what is left of these until then.
func (r *jobRun) arrived(p *jobPod) {
	leads, lost := r.keeper.Arrived(p.name)
	r.tellBroken(slices.DeleteFunc(lost, func(o *jobPod) bool { return o.hold != nil }))
	for _, lead := range leads {
		r.calls = append(r.calls, lead.name)
	}
}

// takeKept makes room for w by what is kept for those that come after it, or need it only after it has ended.
func (r *jobRun) takeKept(w *seeker) bool {
	if len(r.opened(w)) == 0 {
		return false
	}
	m, _ := r.tryRoom(w)
	return m != nil
}

// tryRoom looks for room for w. If there is some, each pod that has a place there has a
// hold when it returns.
func (r *jobRun) tryRoom(w *seeker) (*jobRoom, []string) {
	open := r.opened(w)
	c, holders := r.holders(w, queue.Pods(open))
	plan, ok := r.search(c, w)
	if !ok {
		return nil, nil
	}
	var broken []*jobPod
	var given []lent // of broken
	for _, id := range plan.Broken {
		p := holders[id.Node][id.Holder]
		broken, given = append(broken, p), append(given, lent{p, p.hold})
		r.withdraw(p)
	}
	m, nodes := &jobRoom{lead: w.lead, reserved: w.awaits}, []string(nil)
	for k, p := range w.pods {
		if at := plan.Placements[k]; at.Node >= 0 {
			r.keep(p, at, w.awaits)
			m.pods, nodes = append(m.pods, p), append(nodes, r.index.Snapshot().Node(at.Node).Name)
		}
	}
	for _, id := range slices.Concat(plan.Victims, plan.Awaited) {
		m.waits = append(m.waits, holders[id.Node][id.Holder])
	}
	hosts := queue.Hosts(r.turn(w.lead), open, func(p *jobPod) bool { return slices.Contains(broken, p) })
	if len(hosts) == 0 {
		r.tellBroken(broken)
	}
	if w.awaits && w.lead.gang && len(m.waits) == 0 { // what keeps the gang off is not the end of pods
		for _, p := range m.pods {
			r.withdraw(p)
		}
		if len(hosts) > 0 {
			r.tellBroken(broken)
		}
		return nil, nil
	}
	if len(hosts) > 0 {
		var guests []string
		for _, p := range m.pods {
			guests = append(guests, p.name)
		}
		for _, p := range broken {
			r.shut(p)
		}
		r.holdAgain(given) // what the guests leave is kept until they have started
		r.keeper.Enter(guests, hosts, broken)
		r.lend(hosts)
	}
	r.open(m)
	return m, nodes
}

// holders is the cluster as searches for room see it, and whose each holder is.
func (r *jobRun) holders(w *seeker, open []*jobPod) (*preemption.Cluster, [][]*jobPod) {
	s := r.index.Snapshot().Emptied(1)
	c := &preemption.Cluster{Snapshot: s, Holders: make([][]preemption.Holder, s.Len()), MinCount: map[string]int{}}
	pods := make([][]*jobPod, s.Len())
	for i := range r.on {
		for _, p := range r.on[i] {
			h := preemption.Holder{Placement: p.hold.Placement, Priority: p.ticket.Priority, Start: p.began, Leaving: p.leaves}
			h.Awaited = w.awaits && slices.Contains(r.keeper.Ends(w.lead.id()), p)
			if p.gang {
				h.Gang, c.MinCount[p.job.Name] = p.job.Name, p.job.Least
			}
			h.Ends = p.ends()
			if s.Assume(&h.Placement) == nil {
				c.Holders[i], pods[i] = append(c.Holders[i], h), append(pods[i], p)
			}
		}
	}
	for _, p := range r.promised() {
		if slices.Contains(w.pods, p) {
			continue
		}
		h := preemption.Holder{Placement: p.hold.Placement, Priority: p.ticket.Priority, Promise: true}
		if slices.Contains(open, p) {
			h.Priority = preemption.Yielding
		}
		if p.gang {
			h.Gang = "held for " + p.job.Name // a gang's plan stands or falls as a whole
		}
		i := p.hold.Node
		c.Holders[i], pods[i] = append(c.Holders[i], h), append(pods[i], p)
	}
	return c, pods
}

// promised lists the pods for which something is held that they have not got, by name.
func (r *jobRun) promised() []*jobPod {
	var out []*jobPod
	for _, p := range r.pods {
		if p.hold != nil && !p.own {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *jobPod) int { return cmp.Compare(a.name, b.name) })
	return out
}

// search looks for the cheapest plan for w, in each of its domains if it has any.
func (r *jobRun) search(c *preemption.Cluster, w *seeker) (best preemption.Plan, found bool) {
	ask := &preemption.Preemptor{MinCount: w.least, Priority: preemption.Peaceful, Gang: w.gang}
	for _, p := range w.pods {
		ask.Members = append(ask.Members, p.ask)
	}
	may := func(i int) bool { return !slices.Contains(w.avoid, c.Snapshot.Node(i).Name) }
	look := preemption.Find
	if w.awaits {
		look = preemption.Await
	} else if !yields(c) {
		return best, false
	}
	if w.domains == nil {
		ask.Node = may
		best, _, found = look(c, ask, r.now)
		return best, found
	}
	for _, d := range w.domains {
		ask.Node = func(i int) bool { return slices.Contains(d, int32(i)) && may(i) }
		if plan, _, ok := look(c, ask, r.now); ok && (!found || plan.Cost.Compare(best.Cost) < 0) {
			best, found = plan, true
		}
	}
	return best, found
}

// yields reports whether something goes for one that evicts no pods.
func yields(c *preemption.Cluster) bool {
	return slices.ContainsFunc(c.Holders, func(on []preemption.Holder) bool {
		return slices.ContainsFunc(on, func(h preemption.Holder) bool { return h.Priority < preemption.Peaceful })
	})
}
