package evict

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/scheduler/state"
)

const (
	// evictTime is the most time that the evictions for one plan may take.
	evictTime = time.Minute
	// evictors is how many pods are evicted at once for one plan.
	evictors = 8
	// keptFor is how long a pod is no victim after the API server has refused to
	// evict it, as an admission webhook may.
	keptFor = time.Minute
)

// Evictor evicts pods that make room for others, off the scheduling cycle, and
// knows whom until they are gone. A pod is evicted as the stock scheduler does
// it: a condition DisruptionTarget, a graceful delete of that very pod, and events
// about it and its controller that name the one it went for.
type Evictor struct {
	mu    sync.Mutex
	going map[types.UID]*Victim
	kept  map[types.UID]refusedVictim
	count int64 // changes of the above

	Again func()               // called when a pod that the API server kept may be tried again
	Stays func(pods []*v1.Pod) // called with pods whose eviction had begun, and that are not evicted
	Work  sync.WaitGroup
}

// refusedVictim is a pod that the API server did not let go.
type refusedVictim struct {
	node  string
	until time.Time // it is not tried again before
}

// NewEvictor returns an Evictor that evicts nothing yet.
func NewEvictor() *Evictor {
	return &Evictor{going: map[types.UID]*Victim{}, kept: map[types.UID]refusedVictim{}, Again: func() {}, Stays: func([]*v1.Pod) {}}
}

// Known gives the pods whose eviction has begun, and those that the API server has
// refused lately to evict, each with its node.
func (e *Evictor) Known(now time.Time) (going, kept map[types.UID]string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	going, kept = make(map[types.UID]string, len(e.going)), map[types.UID]string{}
	for uid, v := range e.going {
		going[uid] = v.Node
	}
	for uid, r := range e.kept {
		if !now.Before(r.until) {
			delete(e.kept, uid)
			e.count++
		} else {
			kept[uid] = r.node
		}
	}
	return going, kept
}

// Going reports whether the eviction of a pod has begun, and has not failed.
func (e *Evictor) Going(uid types.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.going[uid] != nil
}

// Changes counts the changes of what known gives.
func (e *Evictor) Changes() int64 {
	e.Known(time.Now())
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.count
}

// keep makes a victim none for a while. When that is over nothing in the API says
// so: those who wait for it are called then.
func (e *Evictor) keep(v *Victim, until time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count++
	e.kept[v.Pod.UID] = refusedVictim{v.Node, until}
	time.AfterFunc(time.Until(until), e.Again)
}

// Forget drops all about a pod that is gone.
func (e *Evictor) Forget(uid types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count++
	delete(e.going, uid)
	delete(e.kept, uid)
}

// pending counts, by the UID and resourceVersion of disruption budgets, the
// evictions that a budget of that version cannot have counted.
func (e *Evictor) pending(budget types.UID, version string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, v := range e.going {
		if was, ok := v.Budgets[budget]; ok && was == version {
			n++
		}
	}
	return n
}

// Evict evicts victims for a cause, and returns at once. From then on the victims are
// going. If one cannot be evicted, the others are left alone as far as they have not been
// evicted yet, and failed is called with the cause, on another goroutine; then Stays is.
func (e *Evictor) Evict(ctx context.Context, h fwk.Handle, why Cause, victims []*Victim, failed func(error)) {
	e.mu.Lock()
	e.count++
	for _, v := range victims {
		e.going[v.Pod.UID] = v
	}
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), evictTime)
	e.Work.Go(func() {
		defer cancel()
		queue := make(chan *Victim, len(victims))
		for _, v := range victims {
			queue <- v
		}
		close(queue)
		var mu sync.Mutex
		var cause error
		var stay []*v1.Pod
		var all sync.WaitGroup
		for range min(evictors, len(victims)) {
			all.Go(func() {
				for v := range queue {
					if err := e.one(ctx, h, &why, v); err != nil {
						mu.Lock()
						cause, stay = cmp.Or(cause, err), append(stay, v.Pod)
						mu.Unlock()
						cancel()
						if state.Refused(err) && !apierrors.IsConflict(err) {
							e.keep(v, time.Now().Add(keptFor))
						}
					}
				}
			})
		}
		all.Wait()
		if cause != nil {
			failed(cause)
			e.Stays(stay) // others may have counted on their ends
		}
	})
}

// one evicts v.
func (e *Evictor) one(ctx context.Context, h fwk.Handle, why *Cause, v *Victim) error {
	log := klog.FromContext(ctx)
	if ctx.Err() != nil {
		e.Forget(v.Pod.UID)
		return ctx.Err()
	}
	inMemory := stopped(h, v.Pod)
	if inMemory {
		// It was not bound: it goes back to the queue, and nothing of it is in the API.
		e.Forget(v.Pod.UID)
	} else if err := remove(ctx, h, why, v); gone(ctx, h, v.Pod, err) {
		e.Forget(v.Pod.UID)
		return nil
	} else if err != nil {
		e.Forget(v.Pod.UID)
		log.Error(err, "Evict a pod", "pod", klog.KObj(v.Pod), "for", why.name())
		return fmt.Errorf("evict pod %s/%s: %w", v.Pod.Namespace, v.Pod.Name, err)
	}
	why.record(h.EventRecorder().WithLogger(log), log, v, inMemory)
	if v.Evicted != nil && !inMemory {
		v.Evicted()
	}
	return nil
}

// gone reports whether a request about a pod failed because it is gone, and perhaps another of its name there. A conflict
// alone does not say so: the API server also gives up a patch where others write the pod again and again.
func gone(ctx context.Context, h fwk.Handle, pod *v1.Pod, err error) bool {
	if !apierrors.IsConflict(err) {
		return apierrors.IsNotFound(err)
	}
	now, err := h.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID
}

// stopped stops a pod on its way to a node, and says whether it did: one that is
// bound, or past the point of return, must be deleted.
func stopped(h fwk.Handle, pod *v1.Pod) bool {
	if w := h.GetWaitingPod(pod.UID); w != nil {
		return w.Preempt(state.DevicesName, "preempted")
	}
	if b := h.GetPodInPreBind(pod.UID); b != nil {
		return b.CancelPod("preempted by " + state.DevicesName)
	}
	return false
}

// remove says in victim's status why it is disrupted, and deletes it.
func remove(ctx context.Context, h fwk.Handle, why *Cause, v *Victim) error {
	victim := v.Pod
	pods := h.ClientSet().CoreV1().Pods(victim.Namespace)
	if patch := why.disrupted(v, time.Now()); patch != nil {
		if _, err := pods.Patch(ctx, victim.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			return err
		}
	}
	return pods.Delete(ctx, victim.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(victim.UID))})
}
