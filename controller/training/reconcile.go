package training

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/controller/runtime"
	rules "berth.dev/berth/core/training"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/queues"
	objects "berth.dev/berth/kube/training"
	"berth.dev/berth/kube/trainjob"
)

// How long until a job is looked at again for what no watch tells.
const (
	staleAgain   = 100 * time.Millisecond // the cache does not have what was written yet
	refusedAgain = 10 * time.Second       // a pod or Service that is refused, or whose name another object has
)

// reconciler brings one job at a time to what core/training decides. Its memory is needed to write
// less, not to be right.
type reconciler struct {
	kind     kind
	o        Options
	mode     func() runtime.Mode
	jobs     client.Client // reads jobs from the manager's cache, and writes
	children client.Reader // reads pods, Services, and nodes from their cache
	live     client.Reader // reads from the API server
	events   record.EventRecorder
	now      func() time.Time

	mu       sync.Mutex
	memories map[types.UID]*memory // guarded by mu; each is used by the one pass over its job
}

// memory is what is kept of a job between passes.
type memory struct {
	name    types.NamespacedName
	before  string       // resource version of the job that was last written over
	refused rules.Queued // why its last pod could not be created; the zero value is that it could
	pods    seenPods
	going   seenPods // of those that are being deleted or disrupted, as the watch had them last. Guarded by the reconciler's mu
	// awaited are the children that were created and that the cache does not have yet, with when; nil is none. Guarded by the reconciler's mu.
	awaited map[types.UID]time.Time
	stopped map[string]*rules.Pod // that have ended after they were asked to stop, by UID; nil of those that are told. Guarded by the reconciler's mu
	// unscaled is why the HorizontalPodAutoscaler could not be created, as was said; "" is that it could.
	unscaled string
}

// remember returns what is kept of a job.
func (r *reconciler) remember(o client.Object) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.memories[o.GetUID()]
	if m == nil {
		m = &memory{name: client.ObjectKeyFromObject(o), going: seenPods{}, stopped: map[string]*rules.Pod{}}
		r.memories[o.GetUID()] = m
	}
	return m
}

// forget drops what is kept of jobs of a name.
func (r *reconciler) forget(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, m := range r.memories {
		if m.name == name {
			delete(r.memories, uid)
		}
	}
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if r.mode != nil && r.mode() != runtime.Own {
		return reconcile.Result{}, nil
	}
	o := r.kind.object()
	if err := r.jobs.Get(ctx, req.NamespacedName, o); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.forget(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if o.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, nil // its children go with it
	}
	p := &pass{reconciler: r, object: o, mem: r.remember(o), version: o.GetResourceVersion()}
	if p.mem.before == p.version {
		return reconcile.Result{RequeueAfter: staleAgain}, nil
	}
	again, err := p.run(ctx)
	switch {
	case errors.Is(err, errStale):
		return reconcile.Result{RequeueAfter: staleAgain}, nil
	case errors.Is(err, errAwaited):
		return reconcile.Result{RequeueAfter: p.wait}, nil
	}
	return reconcile.Result{RequeueAfter: again}, err
}

// pass is one pass over one job.
type pass struct {
	*reconciler
	object  objects.Object // from the cache: not to be changed
	mem     *memory
	version string // resource version of the job as last read or written
	pods    []*corev1.Pod
	wait    time.Duration  // for what was created
	alive   bool           // the API server has the job, and it is not being deleted
	written objects.Object // what the last write got back
}

// run reads, plans, and carries out the plan. The plan that ends a job is followed by the one
// that cleans up.
func (p *pass) run(ctx context.Context) (again time.Duration, err error) {
	seen := rules.Observed{Now: p.now()}
	var invalid error
	if seen.Job, invalid = objects.Of(p.object); errors.Is(invalid, trainjob.ErrNoRuntime) {
		if again, invalid, err = p.keepRuntime(ctx, &seen.Job); invalid == nil {
			return again, err
		}
	} else if invalid == nil {
		invalid = objects.Check(p.object, &seen.Job)
	}
	if err := p.look(ctx, &seen); err != nil {
		return 0, err
	}
	if invalid != nil && !seen.Job.Status.Ended() && !seen.Job.Suspend {
		return 0, p.write(ctx, &seen.Job, rules.Invalid(&seen.Job, invalid.Error(), objects.NotSupported(invalid), seen.Now))
	}
	if fresh := len(seen.Job.Status.Conditions) == 0; fresh && !seen.Job.Suspend {
		for _, text := range objects.Advice(p.object, &seen.Job) {
			p.tell(rules.Event{Warning: true, Reason: "Advice", Message: text})
		}
	}
	for {
		plan := rules.Next(seen)
		if err := p.carryOut(ctx, &seen, &plan); err != nil {
			return 0, err
		}
		p.keep(p.mem, seenOf(seen.Pods, &plan))
		if seen.Job.Status.Ended() || !plan.Status.Ended() {
			return p.until(&plan), nil
		}
		seen.Job.Status = plan.Status
	}
}

// look reads the pods and Services that the job controls.
func (p *pass) look(ctx context.Context, seen *rules.Observed) (err error) {
	ours := []client.ListOption{client.InNamespace(p.object.GetNamespace()), client.MatchingFields{byOwner: string(p.object.GetUID())}, client.UnsafeDisableDeepCopy}
	awaited := p.awaited(p.mem) // before they are read: what arrives meanwhile leads to another pass
	var pods corev1.PodList
	var services corev1.ServiceList
	if err := p.children.List(ctx, &pods, ours...); err != nil {
		return fmt.Errorf("list the pods of a %s: %w", p.kind.kind, err)
	}
	if err := p.children.List(ctx, &services, ours...); err != nil {
		return fmt.Errorf("list the Services of a %s: %w", p.kind.kind, err)
	}
	// A job that is to have no pods gives up those that are seen at once, and the others as they come.
	if p.wait = p.lacks(awaited, pods.Items, services.Items); p.wait > 0 && !seen.Job.Suspend && !seen.Job.Status.Ended() {
		return errAwaited
	}
	for i := range pods.Items {
		if released, err := p.release(ctx, &pods.Items[i], &corev1.Pod{}, "Pod"); err != nil {
			return err
		} else if released {
			continue
		}
		if pod, ok := objects.PodOf(p.kind.kind, &pods.Items[i]); ok {
			if err := p.node(ctx, &pod, &pods.Items[i]); err != nil {
				return err
			}
			seen.Pods = append(seen.Pods, pod)
			p.pods = append(p.pods, &pods.Items[i])
		}
	}
	for i := range services.Items {
		if released, err := p.release(ctx, &services.Items[i], &corev1.Service{}, "Service"); err != nil {
			return err
		} else if released {
			continue
		}
		if s, ok := objects.ServiceOf(p.kind.kind, &services.Items[i]); ok && services.Items[i].DeletionTimestamp == nil {
			seen.Services = append(seen.Services, s)
		}
	}
	if err := p.adopt(ctx, seen); err != nil {
		return err
	}
	seen.Gone = p.gone(p.mem, seen.Pods)
	seen.Stopped = p.stopped(p.mem)
	if seen.Job.Suspend {
		seen.InTurn, _ = queues.Of(p.object, nil).InTurn()
	}
	seen.Queued = objects.Queued(p.pods)
	if p.mem.refused.Waits {
		seen.Queued = p.mem.refused
	}
	return nil
}

// node sets what the node of a pod says of it: whether the node will be gone soon, and whether a GPU that the pod has is faulty.
func (p *pass) node(ctx context.Context, pod *rules.Pod, from *corev1.Pod) error {
	if pod.Node == "" {
		return nil
	}
	n := &corev1.Node{}
	if err := p.children.Get(ctx, client.ObjectKey{Name: pod.Node}, n); err != nil {
		return client.IgnoreNotFound(err)
	}
	pod.Notice = objects.Notice(n)
	if g := devices.FaultyOf(from, devices.Faulty(n)); g != nil {
		pod.Fault = &rules.Fault{GPU: g.Index, UUID: g.UUID, Xid: g.Xid}
	}
	return nil
}

// until returns how long until the plan is made again, 0 for never.
func (p *pass) until(plan *rules.Plan) time.Duration {
	if p.mem.refused.Waits {
		return refusedAgain
	}
	if plan.Again.IsZero() {
		return 0
	}
	return max(plan.Again.Sub(p.now()), time.Millisecond)
}
