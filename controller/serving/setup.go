package serving

import (
	"bufio"
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
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
	"berth.dev/berth/api/kserve"
	"berth.dev/berth/controller/runtime"
)

// How services are worked on: so many at once, as most of a pass is waiting for the API server, and after an error again
// between these times.
const (
	atOnce     = 16
	firstRetry = 50 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// add adds the controller to a manager.
func add(mgr manager.Manager, o Options, m runtime.ModeSource) error {
	register()
	children, err := newCache(mgr)
	if err != nil {
		return fmt.Errorf("set up %s: %w", Name, err)
	}
	for _, object := range []client.Object{&corev1.Pod{}, &appsv1.ControllerRevision{}} {
		if err := children.IndexField(context.Background(), object, byService, serviceOf); err != nil {
			return fmt.Errorf("index the objects of services: %w", err)
		}
	}
	if err := mgr.Add(children); err != nil {
		return fmt.Errorf("add the objects of services: %w", err)
	}
	kube, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("set up %s: %w", Name, err)
	}
	var counts *activators
	if o.Activators {
		listen, err := listener(mgr, kube)
		if err != nil {
			return fmt.Errorf("set up %s: %w", Name, err)
		}
		counts = newActivators(mgr.GetAPIReader(), listen)
		o.Traffic, o.Wake, o.behind, o.activators, o.gone = counts.Traffic, counts.wakes, counts.Behind, counts.Ready, counts.Forget
		if err := mgr.Add(manager.RunnableFunc(counts.run)); err != nil {
			return fmt.Errorf("add %s: %w", Name, err)
		}
	}
	// Events of the older API: those of events.k8s.io that differ in their message alone count as one.
	r := newReconciler(o, mgr.GetClient(), children, mgr.GetAPIReader(), mgr.GetEventRecorderFor(Name)) //nolint:staticcheck // see above
	r.mode, r.logs = m.Now, func(ctx context.Context, pod *corev1.Pod, container string, before bool) ([]string, error) {
		return logOf(ctx, kube, pod, container, before)
	}
	if r.report, err = reporter(mgr, kube); err != nil {
		return fmt.Errorf("set up %s: %w", Name, err)
	}
	written := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})
	known := predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }}
	b := builder.ControllerManagedBy(mgr).Named(Name).
		For(&kserve.InferenceService{}, builder.WithPredicates(written)).
		Watches(&kserve.ServingRuntime{}, handler.EnqueueRequestsFromMapFunc(r.all)).
		Watches(&kserve.ClusterServingRuntime{}, handler.EnqueueRequestsFromMapFunc(r.all)).
		WatchesMetadata(runtime.NamespaceMeta(), handler.EnqueueRequestsFromMapFunc(r.ofNamespace), builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		WatchesRawSource(source.Kind[client.Object](children, &appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(ofChild))).
		WatchesRawSource(source.Kind[client.Object](children, &corev1.Service{}, handler.EnqueueRequestsFromMapFunc(ofChild), known)).
		WatchesRawSource(source.Kind[client.Object](children, &corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.onNode), emptied())).
		WatchesRawSource(source.Kind[client.Object](children, &policyv1.PodDisruptionBudget{}, handler.EnqueueRequestsFromMapFunc(r.besideBudget), predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Kind[client.Object](children, &corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(ofChild))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: atOnce,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		})
	if m.Changed != nil {
		b = b.WatchesRawSource(source.Channel(m.Changed, handler.EnqueueRequestsFromMapFunc(r.all)))
	}
	if counts != nil {
		b = b.WatchesRawSource(source.Channel(counts.changed, handler.EnqueueRequestsFromMapFunc(r.all)))
	}
	if o.Wake != nil {
		woken := make(chan event.GenericEvent)
		if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return forward(ctx, o.Wake, woken) })); err != nil {
			return fmt.Errorf("add %s: %w", Name, err)
		}
		b = b.WatchesRawSource(source.Channel(woken, &handler.EnqueueRequestForObject{}))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("add %s: %w", Name, err)
	}
	return nil
}

// forward turns names into events until ctx ends.
func forward(ctx context.Context, from <-chan types.NamespacedName, to chan<- event.GenericEvent) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case name := <-from:
			select {
			case <-ctx.Done():
				return nil
			case to <- event.GenericEvent{Object: &kserve.InferenceService{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}}:
			}
		}
	}
}

// ofChild requests a pass over the service that an object's label names.
func ofChild(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[api.LabelInferenceService]}}}
}

// all requests a pass over every service.
func (r *reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.services(ctx)
}

// services returns a request for a pass over each service that the options select.
func (r *reconciler) services(ctx context.Context, o ...client.ListOption) (out []reconcile.Request) {
	var list kserve.InferenceServiceList
	if err := r.client.List(ctx, &list, append(o, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil // the cache has ended
	}
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

// How much of a log is read, and for how long.
const (
	logLines = 50
	logBytes = 64 << 10
	logTime  = 5 * time.Second
)

// logOf reads the end of a container's log; if before, that of the run before this one.
func logOf(ctx context.Context, kube kubernetes.Interface, pod *corev1.Pod, container string, before bool) (lines []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, logTime)
	defer cancel()
	tail, limit := int64(logLines), int64(logBytes)
	text, err := kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container, TailLines: &tail, LimitBytes: &limit, Previous: before}).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the log of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	defer text.Close()
	scan := bufio.NewScanner(text)
	scan.Buffer(nil, logBytes+1)
	for scan.Scan() {
		lines = append(lines, scan.Text())
	}
	return lines, nil // what could be read of it
}
