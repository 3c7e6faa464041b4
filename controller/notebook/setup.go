package notebook

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/runtime"
)

// Name is the controller's name: in metrics, logs and as the field manager and
// source of events.
const Name = "berth-notebook"

// How notebooks are worked on: so many at once, as most of a pass is waiting for the
// API server, and after an error again between these times.
const (
	atOnce     = 16
	firstRetry = 50 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// Options is what the reconciler needs to know. The zero value, but for FSGroup, is
// what Kubeflow's controller does without environment settings.
type Options struct {
	// Domain is the cluster's DNS domain, for VirtualServices; "" is cluster.local.
	Domain string
	// FSGroup sets, for pods without any security context, the fsGroup 100, as Kubeflow
	// does unless ADD_FSGROUP is false.
	FSGroup bool
	// Istio makes VirtualServices, if the cluster has that kind.
	Istio bool
	// IstioGateway is the gateway that they name; "" is kubeflow/kubeflow-gateway.
	IstioGateway string
	// IstioHost is the host that they serve; "" is "*".
	IstioHost string
	// Mode is called before every pass; the reconciler does nothing in modes other
	// than Own. Nil is Own.
	Mode func() runtime.Mode
	// ModeChanged, if not nil, gets an event, whose object means nothing, each time
	// Mode returns another mode: every notebook is reconciled then.
	ModeChanged <-chan event.GenericEvent
}

// Add adds the reconciler to a manager, whose cache should have CacheOptions and
// whose scheme must have kubeflow.AddToScheme and client-go's. It needs the rights
// to read and write the status of notebooks, to read and write StatefulSets and
// Services (and VirtualServices with Istio), to make events and watch them, to
// watch ResourceQuotas, to watch and delete pods, and to list pods and nodes.
func Add(mgr manager.Manager, o Options) error {
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.Event{}, eventObject, EventObject); err != nil {
		return fmt.Errorf("index events: %w", err)
	}
	r := NewReconciler(mgr.GetClient(), mgr.GetAPIReader(), o, time.Now)
	register()
	again := make(chan event.GenericEvent)
	beside := []manager.RunnableFunc{
		func(ctx context.Context) error { return r.lines.run(ctx, again) },
		func(ctx context.Context) error { return runs.lead(ctx, r) },
	}
	if o.Istio {
		beside = append(beside, func(ctx context.Context) error { return r.followIstio(ctx, again, watchIn(mgr.GetCache())) })
	}
	for _, run := range beside {
		if err := mgr.Add(run); err != nil {
			return fmt.Errorf("add %s: %w", Name, err)
		}
	}
	known := builder.WithPredicates(predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }}) // Berth makes them itself
	written := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})
	b := builder.ControllerManagedBy(mgr).Named(Name).
		For(&kubeflow.Notebook{}, builder.WithPredicates(written)).
		Owns(&appsv1.StatefulSet{}, known).
		Owns(&corev1.Service{}, known).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(ofPod)).
		Watches(&corev1.Event{}, handler.EnqueueRequestsFromMapFunc(ofEvent), builder.WithPredicates(happened())).
		Watches(&corev1.ResourceQuota{}, handler.EnqueueRequestsFromMapFunc(r.ofQuota), builder.WithPredicates(freed())).
		WatchesRawSource(source.Channel(again, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: atOnce,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		})
	if o.ModeChanged != nil {
		b = b.WatchesRawSource(source.Channel(o.ModeChanged, handler.EnqueueRequestsFromMapFunc(r.all)))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("add %s: %w", Name, err)
	}
	return nil
}
