// Package reserve keeps places for pods and gangs that others overtake: core/queue
// decides who gets a reservation, package preempt where, and what is kept are holds.
package reserve

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/placement"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/runs"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/runtimes"
	"berth.dev/berth/scheduler/state"
)

// Why is the reason of the holds of reservations.
const Why = state.Reservation

// Reservations are the reservations of one scheduler.
//
// While its lock is held, nodeindex.Cluster.Index.Mu may be taken and those after it, and
// it is not taken while one of these is held.
type Reservations struct {
	cluster *nodeindex.Cluster
	rooms   *Rooms
	unkept  func() // called when places that were kept are free

	mu       sync.Mutex
	keeper   *queue.Keeper[*v1.Pod]
	credit   queue.Credit
	lent     map[string][]*state.Hold // by claim: what its pods held when guests got places of it
	timer    *time.Timer
	activate func(map[string]*v1.Pod)
}

// New returns Reservations without one; Attach must be called before they are used. unkept is
// called when one has ended, beside nodeindex.Cluster.Waiting.Wake.
func New(c *nodeindex.Cluster, rooms *Rooms, unkept func()) *Reservations {
	return &Reservations{cluster: c, rooms: rooms, unkept: unkept, keeper: queue.NewKeeper[*v1.Pod](0), lent: map[string][]*state.Hold{}}
}

// Attach has pods put into the queue by a handle, and makes reservations for those who
// have waited for at least after.
func (r *Reservations) Attach(h fwk.Handle, after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.activate = func(pods map[string]*v1.Pod) { h.Activate(klog.Background(), pods) }
	r.keeper = queue.NewKeeper[*v1.Pod](after)
}

// Refused takes a pod that fits nowhere, or leads a gang that does not, and returns its
// claim if it has or gets one.
func (r *Reservations) Refused(pod *v1.Pod, line string) (queue.Reservation, bool) {
	now := time.Now()
	w := &queue.Waiter{Ticket: r.cluster.Waiting.Ticket(pod), ID: queues.Workload(pod), Line: line, Since: now, Uses: r.uses(pod)}
	if c := request.Unscheduled(pod); c != nil && !c.LastTransitionTime.IsZero() {
		w.Since = c.LastTransitionTime.Time
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keeper.Refused(w, now)
}

// uses reports which nodes a pod could use if they were free.
func (r *Reservations) uses(pod *v1.Pod) func(node string) bool {
	var want *state.Request
	return func(node string) bool {
		s := &r.cluster.Index
		s.Mu.Lock()
		defer s.Mu.Unlock()
		if s.View == nil || s.View.ByName[node] == nil {
			return false
		}
		if want == nil {
			want = state.NewRequest(pod, request.Parts(pod))
		}
		q, _, err := s.View.Request(pod, want)
		i := s.View.ByName[node].Index
		return err == nil && s.View.Snapshot.Verdict(q.Class, i).Reason == 0 && len(s.View.Snapshot.Cards(i)) >= int(min(q.GPUs, 1))
	}
}

// Keep notes what is kept for a claim: the pods of a room that lead leads have holds.
func (r *Reservations) Keep(c *queue.Reservation, lead *v1.Pod, m *Room, nodes []string) {
	at := r.cluster.Times.AllEnded(m.Ends, runtimes.EndOfOthers, time.Now())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keeper.Keep(c, lead, m.Pods, m.Ends, nodes, at)
	r.wait()
}

// Ends returns the pods whose end is waited for to free what is kept for a claim, with
// their nodes.
func (r *Reservations) Ends(id string) map[types.UID]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[types.UID]string{}
	for _, pod := range r.keeper.Ends(id) {
		out[pod.UID] = pod.Spec.NodeName
	}
	return out
}

// Vain notes that nothing can be kept for a claim.
func (r *Reservations) Vain(id string) {
	r.change(func() bool { return r.keeper.Vain(id, time.Now()) })
}

// Lapsed notes that nothing is kept for a claim any longer.
func (r *Reservations) Lapsed(id string) {
	r.change(func() bool { return r.keeper.Lapsed(id) })
}

// change has do, which is called with mu held, change the claims, and calls the pods that
// wait if it reports that places are free.
func (r *Reservations) change(do func() (free bool)) {
	r.mu.Lock()
	free := do()
	r.mu.Unlock()
	if free {
		r.free()
	}
}

// free calls the pods that wait: places that were kept are free. It must be called without mu.
func (r *Reservations) free() {
	r.unkept()
	r.cluster.Waiting.Wake()
}

// Bound takes a pod that got a node.
func (r *Reservations) Bound(pod *v1.Pod, node string) {
	t, id := r.cluster.Waiting.Ticket(pod), queues.Workload(pod)
	r.change(func() bool { return r.keeper.Bound(t, id, node) })
}

// Left takes a pod that is gone. The claim of a gang stays for its next leader.
func (r *Reservations) Left(pod *v1.Pod) {
	id := queues.Workload(pod)
	r.change(func() bool {
		r.credit.Left(string(pod.UID), time.Now())
		return id == string(pod.UID) && r.keeper.Left(id)
	})
}

// GangEnded takes a gang of which no pod is left, by its key: it has no next leader.
func (r *Reservations) GangEnded(id string) {
	r.change(func() bool {
		free := r.keeper.Left(id)
		r.wait()
		return free
	})
}

// wait has expire called when the next lease ends, with mu held.
func (r *Reservations) wait() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	if next := r.keeper.Next(); !next.IsZero() {
		r.timer = time.AfterFunc(time.Until(next), r.expire)
	}
}

// expire releases what is kept for claims whose lease is over.
func (r *Reservations) expire() {
	r.mu.Lock()
	over := r.keeper.Expire(time.Now())
	r.wait()
	activate := r.activate
	r.mu.Unlock()
	for _, k := range over {
		r.rooms.Shut(k.Lead.UID)
		for _, pod := range k.Pods {
			r.cluster.Release(pod.UID)
		}
		activate(map[string]*v1.Pod{k.Lead.Namespace + "/" + k.Lead.Name: k.Lead})
	}
	if len(over) > 0 {
		r.free()
	}
}

// Claims lists the claims that have a reservation: pods by UID, gangs by key.
func (r *Reservations) Claims() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, c := range r.keeper.Claims() {
		out = append(out, c.ID)
	}
	return out
}

// Open is what is not kept from some pods.
type Open struct {
	kept []queue.Kept[*v1.Pod]
	Pods map[types.UID]bool // with these reserved places; nil is none
}

// OpenTo returns what is not kept from pods, which lead leads: they come before those it is kept for, or are expected to have
// ended before it is needed, and earlier pods like them were not too late.
func (r *Reservations) OpenTo(lead *v1.Pod, pods []*v1.Pod) (o Open) {
	if !r.any() {
		return o
	}
	t, now := r.cluster.Waiting.Ticket(lead), time.Now()
	ends, template := r.cluster.Times.AllEnded(pods, runtimes.EndOfGuest, now), runs.TemplateOf(lead).Name
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.credit.Allows(template, now) {
		ends = time.Time{}
	}
	o.kept, _ = r.keeper.Open(t, ends)
	for _, p := range queue.Pods(o.kept) {
		if o.Pods == nil {
			o.Pods = map[types.UID]bool{}
		}
		o.Pods[p.UID] = true
	}
	return o
}

// any reports whether something is kept.
func (r *Reservations) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keeper.Any()
}

// Hosts are the claims before lead's among what is open to it, of which some pods have lost their places: they need these only when the
// others have ended.
func (r *Reservations) Hosts(o *Open, lead *v1.Pod, lost []*v1.Pod) []queue.Kept[*v1.Pod] {
	if len(o.kept) == 0 || len(lost) == 0 {
		return nil
	}
	return queue.Hosts(r.cluster.Waiting.Ticket(lead), o.kept, func(p *v1.Pod) bool {
		return slices.ContainsFunc(lost, func(q *v1.Pod) bool { return q.UID == p.UID })
	})
}

// Enter notes that pods, which lead leads, get what was kept for hosts, whose pods lost it. Arrived says when these are to be tried again.
func (r *Reservations) Enter(hosts []queue.Kept[*v1.Pod], lead *v1.Pod, pods, lost []*v1.Pod) {
	template := runs.TemplateOf(lead).Name
	var ids []string
	for _, p := range pods {
		ids = append(ids, string(p.UID))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keeper.Enter(ids, hosts, lost)
	for i := range hosts {
		for _, id := range ids {
			r.credit.Enter(id, template, hosts[i].At)
		}
	}
}

// Lend notes what pods of hosts hold beside their guests, until these have started: see Lent.
func (r *Reservations) Lend(hosts []queue.Kept[*v1.Pod]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.lent, func(id string, _ []*state.Hold) bool { return !r.keeper.Lends(id) })
	for i := range hosts {
		var holds []*state.Hold
		for _, p := range hosts[i].Pods {
			if h := r.cluster.HoldOf(p.UID); h != nil {
				holds = append(holds, h)
			}
		}
		r.lent[hosts[i].ID] = holds
	}
}

// Lent returns what pods of a claim held when guests got places of it; it is nil if these have started.
func (r *Reservations) Lent(id string) []*state.Hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.keeper.Lends(id) {
		return nil
	}
	return r.lent[id]
}

// Arrived takes a pod that is bound or gone, and returns the pods that have lost places to it, and who leads them.
func (r *Reservations) Arrived(pod *v1.Pod) (leads, lost []*v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keeper.Arrived(string(pod.UID))
}

// KeptFrom names the pod for which GPUs are kept that another would get now; "" is that none
// are. A pod of another namespace has no name there. allows is whether the pod may use a node
// for all but its GPUs; it is called with nodeindex.Cluster.Index.Mu held.
func (r *Reservations) KeptFrom(pod *v1.Pod, allows func(node string) bool) string {
	r.mu.Lock()
	all := r.keeper.All()
	r.mu.Unlock()
	for _, k := range all {
		if k.ID != queues.Workload(pod) && r.inWay(pod, k.Pods, allows) {
			who := "a pod of another namespace"
			if k.Lead.Namespace == pod.Namespace {
				who = k.Lead.Namespace + "/" + k.Lead.Name
			}
			return fmt.Sprintf("GPUs are being kept for %s, which has waited longer", who)
		}
	}
	return ""
}

// inWay reports whether a pod would fit a node that it may use but for what is held for others there.
func (r *Reservations) inWay(pod *v1.Pod, others []*v1.Pod, allows func(node string) bool) bool {
	s := &r.cluster.Index
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.View == nil {
		return false
	}
	q, _, err := s.View.Request(pod, state.NewRequest(pod, request.Parts(pod)))
	if err != nil {
		return false
	}
	for _, other := range others {
		h := r.cluster.HoldOf(other.UID)
		if h == nil || s.View.ByName[h.Node] == nil {
			continue
		}
		at := s.View.ByName[h.Node]
		o := at.Held[other.UID]
		if o == nil {
			continue
		}
		m := s.View.Snapshot.Mark()
		fits := s.View.Snapshot.Release(&o.Placement) == nil && placement.Fit(s.View.Snapshot, at.Index, &q) == placement.Fits
		s.View.Snapshot.RollBack(m)
		if fits && allows(h.Node) {
			return true
		}
	}
	return false
}
