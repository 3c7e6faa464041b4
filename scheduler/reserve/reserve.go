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
	"berth.dev/berth/kube/request"
	"berth.dev/berth/scheduler/nodeindex"
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
	reserver *queue.Reserver
	kept     map[string]kept // by who has the claim
	timer    *time.Timer
	activate func(map[string]*v1.Pod)
}

// kept is what is kept for one claim.
type kept struct {
	ticket queue.Ticket
	lead   *v1.Pod
	pods   []*v1.Pod // those with a hold
}

// New returns Reservations without one; Attach must be called before they are used. unkept is
// called when one has ended, beside nodeindex.Cluster.Waiting.Wake.
func New(c *nodeindex.Cluster, rooms *Rooms, unkept func()) *Reservations {
	return &Reservations{cluster: c, rooms: rooms, unkept: unkept, reserver: queue.NewReserver(0), kept: map[string]kept{}}
}

// Attach has pods put into the queue by a handle, and makes reservations for those who
// have waited for at least after.
func (r *Reservations) Attach(h fwk.Handle, after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.activate = func(pods map[string]*v1.Pod) { h.Activate(klog.Background(), pods) }
	r.reserver = queue.NewReserver(after)
}

// ID names who may have a claim: a pod, or the gang that it is of.
func ID(pod *v1.Pod) string {
	if g, err := request.GangOf(pod); err == nil && g != nil {
		return g.Key
	}
	return string(pod.UID)
}

// Refused takes a pod that fits nowhere, or leads a gang that does not, and returns its
// claim if it has or gets one.
func (r *Reservations) Refused(pod *v1.Pod, line string) (queue.Reservation, bool) {
	now := time.Now()
	w := &queue.Waiter{Ticket: r.cluster.Waiting.Ticket(pod), ID: ID(pod), Line: line, Since: now, Uses: r.uses(pod)}
	if c := request.Unscheduled(pod); c != nil && !c.LastTransitionTime.IsZero() {
		w.Since = c.LastTransitionTime.Time
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reserver.Refused(w, now)
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

// Keep notes what is kept for a claim: the pods that lead leads have holds.
func (r *Reservations) Keep(c *queue.Reservation, lead *v1.Pod, pods []*v1.Pod, nodes []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept[c.ID] = kept{ticket: c.Ticket, lead: lead, pods: slices.Clone(pods)}
	r.reserver.Kept(c.ID, nodes)
	r.wait()
}

// Vain notes that nothing can be kept for a claim.
func (r *Reservations) Vain(id string) {
	r.mu.Lock()
	r.reserver.Vain(id, time.Now())
	r.mu.Unlock()
	r.Lapsed(id)
}

// Lapsed notes that nothing is kept for a claim any longer.
func (r *Reservations) Lapsed(id string) {
	r.mu.Lock()
	_, had := r.kept[id]
	delete(r.kept, id)
	r.mu.Unlock()
	if had {
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
	t, id := r.cluster.Waiting.Ticket(pod), ID(pod)
	r.mu.Lock()
	r.reserver.Bound(t, id, node)
	r.mu.Unlock()
	r.Lapsed(id) // it may have got another place
}

// Left takes a pod that is gone. The claim of a gang stays for its next leader.
func (r *Reservations) Left(pod *v1.Pod) {
	id := ID(pod)
	if id != string(pod.UID) {
		return
	}
	r.mu.Lock()
	r.reserver.Left(id)
	r.mu.Unlock()
	r.Lapsed(id)
}

// GangEnded takes a gang of which no pod is left, by its key: it has no next leader.
func (r *Reservations) GangEnded(id string) {
	r.mu.Lock()
	r.reserver.Left(id)
	r.wait()
	r.mu.Unlock()
	r.Lapsed(id)
}

// wait has expire called when the next lease ends, with mu held.
func (r *Reservations) wait() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	if next := r.reserver.Next(); !next.IsZero() {
		r.timer = time.AfterFunc(time.Until(next), r.expire)
	}
}

// expire releases what is kept for claims whose lease is over.
func (r *Reservations) expire() {
	r.mu.Lock()
	var over []kept
	for _, c := range r.reserver.Expire(time.Now()) {
		if k, is := r.kept[c.ID]; is {
			over = append(over, k)
			delete(r.kept, c.ID)
		}
	}
	r.wait()
	activate := r.activate
	r.mu.Unlock()
	for _, k := range over {
		r.rooms.Shut(k.lead.UID)
		for _, pod := range k.pods {
			r.cluster.Release(pod.UID)
		}
		activate(map[string]*v1.Pod{k.lead.Namespace + "/" + k.lead.Name: k.lead})
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
	for _, c := range r.reserver.Claims() {
		out = append(out, c.ID)
	}
	return out
}

// After returns the pods with reserved places that a pod comes before, by UID: what is
// kept for them is not kept from it.
func (r *Reservations) After(pod *v1.Pod) map[types.UID]bool {
	t := r.cluster.Waiting.Ticket(pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	var out map[types.UID]bool
	for _, k := range r.kept {
		if queue.Compare(t, k.ticket) >= 0 {
			continue
		}
		for _, p := range k.pods {
			if out == nil {
				out = map[types.UID]bool{}
			}
			out[p.UID] = true
		}
	}
	return out
}

// KeptFrom names the pod for which GPUs are kept that another would get now; "" is that none
// are. A pod of another namespace has no name there.
func (r *Reservations) KeptFrom(pod *v1.Pod) string {
	r.mu.Lock()
	claims := r.reserver.Claims()
	held := maps.Clone(r.kept)
	r.mu.Unlock()
	for _, c := range claims {
		if k, is := held[c.ID]; is && c.ID != ID(pod) && r.inWay(pod, k.pods) {
			who := "a pod of another namespace"
			if k.lead.Namespace == pod.Namespace {
				who = k.lead.Namespace + "/" + k.lead.Name
			}
			return fmt.Sprintf("GPUs are being kept for %s, which has waited longer", who)
		}
	}
	return ""
}

// inWay reports whether a pod would fit a node but for what is held for others there.
func (r *Reservations) inWay(pod *v1.Pod, others []*v1.Pod) bool {
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
		if fits {
			return true
		}
	}
	return false
}
