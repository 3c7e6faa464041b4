package training

import (
	"context"
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"berth.dev/berth/api"
	"berth.dev/berth/controller/idle"
	"berth.dev/berth/controller/runtime"
	rules "berth.dev/berth/core/training"
	objects "berth.dev/berth/kube/training"
)

// How jobs are worked on: so many at once, as most of a pass is waiting for the API
// server, and after an error again between these times.
const (
	atOnce     = 16
	firstRetry = 50 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// add adds the controller of a kind to a manager.
func add(mgr manager.Manager, k kind, o Options, m runtime.ModeSource) error {
	children, err := newCache(mgr, k)
	if err != nil {
		return fmt.Errorf("set up %s for %s: %w", Name, k.plural(), err)
	}
	for _, object := range []client.Object{&corev1.Pod{}, &corev1.Service{}} {
		if err := children.IndexField(context.Background(), object, byOwner, ownerUID); err != nil {
			return fmt.Errorf("index the children of %s: %w", k.plural(), err)
		}
		if err := children.IndexField(context.Background(), object, byOrphan, orphanOf); err != nil {
			return fmt.Errorf("index the orphans of %s: %w", k.plural(), err)
		}
	}
	if err := children.IndexField(context.Background(), &corev1.Pod{}, byNode, nodeOf); err != nil {
		return fmt.Errorf("index the pods of %s: %w", k.plural(), err)
	}
	if err := mgr.Add(children); err != nil {
		return fmt.Errorf("add the children of %s: %w", k.plural(), err)
	}
	// Events of the older API: those of events.k8s.io that differ in their message alone count as one.
	recorder, err := newRecorder(mgr)
	if err != nil {
		return fmt.Errorf("set up %s for %s: %w", Name, k.plural(), err)
	}
	r := &reconciler{
		kind: k, o: o, mode: m.Now, jobs: mgr.GetClient(), children: children, live: mgr.GetAPIReader(),
		events: recorder, now: time.Now, memories: map[types.UID]*memory{},
	}
	written := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	noticed := predicate.Funcs{
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return notice(e.ObjectOld) != notice(e.ObjectNew) },
		CreateFunc: func(e event.CreateEvent) bool { return notice(e.Object) != [2]string{} },
	}
	b := builder.ControllerManagedBy(mgr).Named(Name+"-"+k.plural()).
		For(k.object(), builder.WithPredicates(written)).
		WatchesRawSource(source.Kind[client.Object](children, &corev1.Pod{}, gathered(r.ofChild))).
		WatchesRawSource(source.Kind[client.Object](children, &corev1.Service{}, r.ofServices())).
		WatchesRawSource(source.Kind[client.Object](children, &corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.onNode), noticed)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: atOnce,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		})
	if k.kind == rules.PyTorchJob {
		b = b.WatchesRawSource(source.Kind[client.Object](children, &autoscalingv2.HorizontalPodAutoscaler{}, handler.EnqueueRequestsFromMapFunc(r.ofChild), autoscalerChanged()))
	}
	if m.Changed != nil {
		b = b.WatchesRawSource(source.Channel(m.Changed, handler.EnqueueRequestsFromMapFunc(r.all)))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("add %s for %s: %w", Name, k.plural(), err)
	}
	return idle.AddJobs(mgr, idle.Options{Mode: m.Now}, idle.Jobs{Kind: k.kind, List: r.list, Pods: r.podsOf})
}

// gather is how long what happens to pods is gathered. The pods of a gang are created, bound, and started within moments of each other,
// which is then one pass and one write of the status.
const gather = 100 * time.Millisecond

// gathered requests passes, of a job one for all that happens to its pods within gather.
func gathered(of handler.MapFunc) handler.EventHandler {
	add := func(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request], objects ...client.Object) {
		for _, o := range objects {
			for _, request := range of(ctx, o) {
				q.AddAfter(request, gather)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(ctx, q, e.Object)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(ctx, q, e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(ctx, q, e.Object)
		},
	}
}

// list returns all jobs of the kind, which are the cache's own.
func (r *reconciler) list(ctx context.Context) ([]objects.Object, error) {
	list := r.kind.list()
	if err := r.jobs.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	return r.kind.items(list), nil
}

// podsOf returns the pods that a job controls, which are the cache's own.
func (r *reconciler) podsOf(ctx context.Context, job client.Object) (out []*corev1.Pod, err error) {
	var list corev1.PodList
	if err := r.children.List(ctx, &list, client.InNamespace(job.GetNamespace()), client.MatchingFields{byOwner: string(job.GetUID())}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

// ofChild requests a pass over the job of a pod or Service, or over that which could take control of it. It notes that the child is there, and how
// a pod has ended: it may be gone when the pass is made.
func (r *reconciler) ofChild(_ context.Context, o client.Object) []reconcile.Request {
	kind, name, ok := objects.OwnerOf(o)
	if names := orphanOf(o); len(names) > 0 {
		kind, name, ok = string(r.kind.kind), names[0], true
	}
	if !ok || kind != string(r.kind.kind) {
		return nil
	}
	r.arrived(o)
	r.noteGoing(o)
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}

// notice returns why pods may have to leave a node: it will be gone soon, or some of its GPUs are faulty.
func notice(o client.Object) [2]string {
	n, ok := o.(*corev1.Node)
	if !ok {
		return [2]string{}
	}
	return [2]string{objects.Notice(n), n.Annotations[api.AnnotationInventory]}
}

// onNode requests a pass over the jobs that have pods on a node.
func (r *reconciler) onNode(ctx context.Context, o client.Object) (out []reconcile.Request) {
	var pods corev1.PodList
	if err := r.children.List(ctx, &pods, client.MatchingFields{byNode: o.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache has ended
	}
	for i := range pods.Items {
		out = append(out, r.ofChild(ctx, &pods.Items[i])...)
	}
	return out
}

// all requests a pass over every job.
func (r *reconciler) all(ctx context.Context, _ client.Object) (out []reconcile.Request) {
	jobs, err := r.list(ctx)
	if err != nil {
		return nil // the cache has ended
	}
	for _, o := range jobs {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
	}
	return out
}
