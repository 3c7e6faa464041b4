package nodeindex

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/preemption"
)

// RefusedRoom is the pods for which a search found no room to make, and what stood
// against it. Their own rejection says only that they fit nowhere, so the events
// that the scheduling queue would bring them back for are those that free a device.
// What makes a search succeed is more: see obstacles.
type RefusedRoom struct {
	mu sync.Mutex
	by map[types.UID]refusedPod
}

type refusedPod struct {
	pod *v1.Pod // as it was when it was refused
	by  Obstacles
}

// Obstacles are what a search failed on, by the events that may change it.
type Obstacles struct {
	Kept   bool // pods that a disruption budget, a gang or the API server keeps
	Others bool // what pods that stay hold beside devices, or what other plugins say
	doubt  bool // pods of which it is not known whether they were bound
}

func newRefusedRoom() *RefusedRoom { return &RefusedRoom{by: map[types.UID]refusedPod{}} }

// Note remembers that no room was found for a pod.
func (r *RefusedRoom) Note(pod *v1.Pod, by Obstacles) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.by[pod.UID] = refusedPod{pod, by}
}

// Drop forgets a pod: it has room, is bound, or is gone.
func (r *RefusedRoom) Drop(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, uid)
}

// Against gives what stood against room for a pod.
func (r *RefusedRoom) Against(uid types.UID) Obstacles {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[uid].by
}

// Which gives the pods whose obstacles is says yes to, as Activate wants them.
func (r *RefusedRoom) Which(is func(Obstacles) bool) map[string]*v1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]*v1.Pod{}
	for _, p := range r.by {
		if is(p.by) {
			out[p.pod.Namespace+"/"+p.pod.Name] = p.pod
		}
	}
	return out
}

// ObstaclesTo gives what a search failed on, where pods are kept that many by the
// API server.
func ObstaclesTo(why *preemption.Refusal, kept int, doubt bool) Obstacles {
	return Obstacles{Kept: why.Protected > 0 || kept > 0, Others: why.TooSmall > 0, doubt: doubt}
}
