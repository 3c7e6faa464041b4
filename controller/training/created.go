package training

import (
	"context"
	"errors"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// awaitCreated is how long the passes over a job wait until the cache has what was created. Then they go on, and the API server says
// what is there.
const awaitCreated = 5 * time.Second

// errAwaited is that the cache does not have a child yet that was created. The event that it is there leads to the next pass.
var errAwaited = errors.New("the cache does not have what was created")

// created remembers a child until the cache has it. A pass that does not see it would create it again.
func (r *reconciler) created(m *memory, uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.awaited == nil {
		m.awaited = map[types.UID]time.Time{}
	}
	m.awaited[uid] = r.now()
}

// arrived forgets a child that an event is about, as the cache has it, or had it and it is gone. It reports whether the passes over its job
// waited for no other.
func (r *reconciler) arrived(o client.Object) bool {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.memories[ref.UID]
	if m == nil || m.awaited[o.GetUID()].IsZero() {
		return false
	}
	m.drop(o.GetUID())
	return m.awaited == nil
}

// drop forgets a child that was created. The reconciler's mu must be held.
func (m *memory) drop(uid types.UID) {
	if delete(m.awaited, uid); len(m.awaited) == 0 {
		m.awaited = nil // most jobs wait for none, most of the time
	}
}

// awaited returns what was created and is not known to be in the cache, with when.
func (r *reconciler) awaited(m *memory) map[types.UID]time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(m.awaited)
}

// lacks returns how much longer to wait for what was awaited before pods and Services were read, 0 if all is among them or was waited for
// long enough.
func (p *pass) lacks(awaited map[types.UID]time.Time, pods []corev1.Pod, services []corev1.Service) (wait time.Duration) {
	if len(awaited) == 0 {
		return 0
	}
	there := make(map[types.UID]bool, len(pods)+len(services))
	for i := range pods {
		there[pods[i].UID] = true
	}
	for i := range services {
		there[services[i].UID] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid, at := range awaited {
		if left := at.Add(awaitCreated).Sub(p.now()); there[uid] || left <= 0 {
			p.mem.drop(uid)
		} else {
			wait = max(wait, left)
		}
	}
	return wait
}

// ofServices requests passes over the jobs of Services that are deleted, and of one that was the last for which they wait.
func (r *reconciler) ofServices() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(ctx context.Context, q queue, o client.Object, after time.Duration) {
		for _, request := range r.ofChild(ctx, o) {
			q.AddAfter(request, after)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if r.arrived(e.Object) {
				add(ctx, q, e.Object, gather)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, q, e.Object, 0) },
	}
}
