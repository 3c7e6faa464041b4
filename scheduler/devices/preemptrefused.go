package devices

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/core/preemption"
)

// refusedRoom is the pods for which a search found no room to make, and what stood
// against it. Their own rejection says only that they fit nowhere, so the events
// that the scheduling queue would bring them back for are those that free a device.
// What makes a search succeed is more: see obstacles.
type refusedRoom struct {
	mu sync.Mutex
	by map[types.UID]refusedPod
}

type refusedPod struct {
	pod *v1.Pod // as it was when it was refused
	by  obstacles
}

// obstacles are what a search failed on, by the events that may change it.
type obstacles struct {
	kept   bool // pods that a disruption budget, a gang or the API server keeps
	others bool // what pods that stay hold beside devices, or what other plugins say
	doubt  bool // pods of which it is not known whether they were bound
}

func newRefusedRoom() *refusedRoom { return &refusedRoom{by: map[types.UID]refusedPod{}} }

// note remembers that no room was found for a pod.
func (r *refusedRoom) note(pod *v1.Pod, by obstacles) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.by[pod.UID] = refusedPod{pod, by}
}

// drop forgets a pod: it has room, is bound, or is gone.
func (r *refusedRoom) drop(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, uid)
}

// against gives what stood against room for a pod.
func (r *refusedRoom) against(uid types.UID) obstacles {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[uid].by
}

// which gives the pods whose obstacles is says yes to, as Activate wants them.
func (r *refusedRoom) which(is func(obstacles) bool) map[string]*v1.Pod {
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

// obstaclesTo gives what a search failed on, where pods are kept that many by the
// API server.
func obstaclesTo(why *preemption.Refusal, kept int, doubt bool) obstacles {
	return obstacles{kept: why.Protected > 0 || kept > 0, others: why.TooSmall > 0, doubt: doubt}
}
