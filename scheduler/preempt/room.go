package preempt

import (
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// room is made for one pod, or for the members of a gang together, while others
// leave. What they free is kept by the pods' holds; a room says whom it waits
// for.
type room struct {
	pods  []*v1.Pod
	waits map[string]map[types.UID]bool // by node: who has to be gone
	left  map[types.UID]bool            // of them, those that the API still has
	order []string                      // of several pods, by UID: in which they are to be tried; nil is any
}

// rooms are the rooms that are being made, by the pods that they are for.
type rooms struct {
	mu sync.Mutex
	by map[types.UID]*room
}

// wait makes the room wait for a pod of a node.
func (m *room) wait(node string, pod *v1.Pod) {
	if m.waits[node] == nil {
		m.waits[node] = map[types.UID]bool{}
	}
	m.waits[node][pod.UID], m.left[pod.UID] = true, true
}

func newRooms() *rooms { return &rooms{by: map[types.UID]*room{}} }

// roomOf gives the room that is being made for a pod, or nil.
func (r *rooms) roomOf(uid types.UID) *room {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[uid]
}

// open notes a room for all its pods, and says how many it waits for. From then on
// gone changes that.
func (r *rooms) open(m *room) (left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pod := range m.pods {
		r.by[pod.UID] = m
	}
	return len(m.left)
}

// shut forgets a pod's room, that of its whole gang.
func (r *rooms) shut(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.by[uid]; m != nil {
		for _, pod := range m.pods {
			if r.by[pod.UID] == m {
				delete(r.by, pod.UID)
			}
		}
	}
}

// gone notes that a pod is gone from the API, and gives the pods whose room is
// complete by that, by namespace and name.
func (r *rooms) gone(uid types.UID) map[string]*v1.Pod {
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
		for _, pod := range m.pods {
			ready[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	return ready
}

// there counts who is still there of those that the room waits for, as the
// scheduler's snapshot has the nodes: it may be behind the API, and decides.
func (m *room) there(nodes fwk.NodeInfoLister) int {
	n := 0
	for name, waits := range m.waits {
		info, err := nodes.Get(name)
		if err != nil {
			continue // the node is gone, and they with it
		}
		for _, pi := range info.GetPods() {
			if waits[pi.GetPod().UID] {
				n++
			}
		}
	}
	return n
}

// sentence says what a room waits for.
func (m *room) sentence(there int) string {
	if there == 0 {
		return ""
	}
	where := fmt.Sprintf("%d nodes", len(m.waits))
	if len(m.waits) == 1 {
		for name := range m.waits {
			where = "node " + name
		}
	}
	if there == 1 {
		return "preemption: waiting for 1 pod on " + where + " to end"
	}
	return fmt.Sprintf("preemption: waiting for %d pods on %s to end", there, where)
}
