package training

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// awaitCreated is how long the passes over a job wait until the cache has what was created. Then they go on, and the API server says
// what is there.
const awaitCreated = 5 * time.Second

// created remembers a child until the cache has it. A pass that does not see it would create it again.
func (r *reconciler) created(m *memory, uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.awaited == nil {
		m.awaited = map[types.UID]time.Time{}
	}
	m.awaited[uid] = r.now()
}

// arrived forgets a child that an event is about: the cache has it, or had it and it is gone.
func (r *reconciler) arrived(o client.Object) {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.memories[ref.UID]; m != nil {
		m.drop(o.GetUID())
	}
}

// drop forgets a child that was created. The reconciler's mu must be held.
func (m *memory) drop(uid types.UID) {
	if delete(m.awaited, uid); len(m.awaited) == 0 {
		m.awaited = nil // most jobs wait for none, most of the time
	}
}

// awaits reports whether something that was created is not among the pods and Services of the cache yet.
func (p *pass) awaits(pods []corev1.Pod, services []corev1.Service) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mem.awaited == nil {
		return false
	}
	for i := range pods {
		p.mem.drop(pods[i].UID)
	}
	for i := range services {
		p.mem.drop(services[i].UID)
	}
	for uid, at := range p.mem.awaited {
		if p.now().Sub(at) >= awaitCreated {
			p.mem.drop(uid)
		}
	}
	return p.mem.awaited != nil
}
