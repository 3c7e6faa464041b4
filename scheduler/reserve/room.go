package reserve

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/core/queue"
)

// Room is made for one pod, or for the members of a gang together, while others
// leave. The devices that they free are kept by the pods' holds; a room says whom it waits
// for.
type Room struct {
	Pods []*v1.Pod
	// Lead is the pod that plans with the room when it is complete; it may be none of Pods,
	// where a gang has more than it needs. nil is the first of them.
	Lead  *v1.Pod
	waits map[string]map[types.UID]bool // by node: who has to be gone
	left  map[types.UID]bool            // of them, those that the API still has
	Ends  []*v1.Pod                     // of waits
	Order []string                      // of several pods, by UID: in which they are to be tried; nil is any
	// Reserved is that no pod is evicted for it: those it waits for end by themselves.
	Reserved bool
}

// Rooms are the rooms that are being made, by the pods that they are for.
type Rooms struct {
	mu sync.Mutex
	by map[types.UID]*Room
}

// Wait makes the room wait for a pod of a node.
func (m *Room) Wait(node string, pod *v1.Pod) {
	if m.waits[node] == nil {
		m.waits[node] = map[types.UID]bool{}
	}
	if !m.waits[node][pod.UID] {
		m.Ends = append(m.Ends, pod)
	}
	m.waits[node][pod.UID], m.left[pod.UID] = true, true
}

// NewRoom returns an empty room.
func NewRoom() *Room {
	return &Room{waits: map[string]map[types.UID]bool{}, left: map[types.UID]bool{}}
}

// all is the pods of the room, and its lead.
func (m *Room) all() []*v1.Pod {
	if m.Lead == nil || slices.ContainsFunc(m.Pods, func(pod *v1.Pod) bool { return pod.UID == m.Lead.UID }) {
		return m.Pods
	}
	return append(slices.Clip(m.Pods), m.Lead)
}

// Empty reports whether the room waits for no pod, before it is opened.
func (m *Room) Empty() bool { return len(m.left) == 0 }

// NodeOf returns the node on which the room waits for a pod.
func (m *Room) NodeOf(pod *v1.Pod) string {
	for node, waits := range m.waits {
		if waits[pod.UID] {
			return node
		}
	}
	return pod.Spec.NodeName
}

// Waits is what the pods of the room wait for.
func (m *Room) Waits() queue.Wait {
	if m.Reserved {
		return queue.Room
	}
	return queue.Preemption
}

// NewRooms returns Rooms without any.
func NewRooms() *Rooms { return &Rooms{by: map[types.UID]*Room{}} }

// Of returns the room that is being made for a pod, or nil.
func (r *Rooms) Of(uid types.UID) *Room {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[uid]
}

// Open notes a room for all its pods, and says how many it waits for. From then on
// Gone changes that.
func (r *Rooms) Open(m *Room) (left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pod := range m.all() {
		r.by[pod.UID] = m
	}
	return len(m.left)
}

// Shut forgets a pod's room, that of its whole gang.
func (r *Rooms) Shut(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.by[uid]; m != nil {
		for _, pod := range m.all() {
			if r.by[pod.UID] == m {
				delete(r.by, pod.UID)
			}
		}
	}
}

// Gone notes that a pod is gone from the API, and gives the pods whose room is
// complete by that, by namespace and name.
func (r *Rooms) Gone(uid types.UID) map[string]*v1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, uid)
	var ready map[string]*v1.Pod
	for _, m := range r.by {
		if !m.left[uid] {
			continue
		}
		if delete(m.left, uid); len(m.left) > 0 {
			continue
		}
		if ready == nil {
			ready = map[string]*v1.Pod{}
		}
		for _, pod := range m.all() {
			ready[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	return ready
}

// There counts which of those that a room waits for are still there, as the scheduler's snapshot has the nodes: it may be
// behind the API, and decides. stays is that one of them is there and will not end: it was to be evicted, and that failed.
// going reports whether the eviction of a pod has begun.
func (r *Rooms) There(m *Room, nodes fwk.NodeInfoLister, going func(types.UID) bool) (there int, stays bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, waits := range m.waits {
		info, err := nodes.Get(name)
		if err != nil {
			continue // the node is gone, and they with it
		}
		for _, pi := range info.GetPods() {
			pod := pi.GetPod()
			if !waits[pod.UID] {
				continue
			}
			there++
			stays = stays || !m.Reserved && m.left[pod.UID] && pod.DeletionTimestamp == nil && !going(pod.UID)
		}
	}
	return there, stays
}

// Stay notes that pods are not evicted after all, shuts the rooms that wait for their ends, and returns the pods that
// these are for. Reservations wait on: those they wait for end by themselves.
func (r *Rooms) Stay(pods []*v1.Pod) []*v1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*v1.Pod
	for _, m := range r.by {
		if m.Reserved || !slices.ContainsFunc(pods, func(pod *v1.Pod) bool { return m.left[pod.UID] }) {
			continue
		}
		for _, pod := range m.all() {
			if r.by[pod.UID] == m {
				delete(r.by, pod.UID)
				out = append(out, pod)
			}
		}
	}
	slices.SortFunc(out, func(a, b *v1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return out
}

// Sentence says what a room waits for.
func (m *Room) Sentence(there int) string {
	if there == 0 {
		return ""
	}
	where := fmt.Sprintf("%d nodes", len(m.waits))
	if len(m.waits) == 1 {
		for name := range m.waits {
			where = "node " + name
		}
	}
	who := fmt.Sprintf("%d pods", there)
	if there == 1 {
		who = "1 pod"
	}
	if m.Reserved {
		return fmt.Sprintf("reservation: its GPUs on %s are kept for it until %s there end", where, who)
	}
	return fmt.Sprintf("preemption: waiting for %s on %s to end", who, where)
}
