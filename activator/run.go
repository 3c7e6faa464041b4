package activator

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Rules returns what the activator may do.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list", "watch", "create", "update", "delete"}},
	}
}

// follower brings a Set to what the cluster has.
type follower struct {
	set      *Set
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister
	queue    workqueue.TypedRateLimitingInterface[types.NamespacedName]
}

// Run follows the Services and EndpointSlices of InferenceServices until ctx ends. While
// the API server is away, the Set goes on with what it knows. started, if not nil, is
// called when all that there is was read.
func (s *Set) Run(ctx context.Context, started func()) error {
	factory := informers.NewSharedInformerFactoryWithOptions(s.o.Client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = LabelService }))
	defer factory.Shutdown()
	services, all := factory.Core().V1().Services(), factory.Discovery().V1().EndpointSlices()
	f := &follower{set: s, services: services.Lister(), slices: all.Lister(), queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]())}
	defer f.queue.ShutDown()
	for informer, of := range map[cache.SharedIndexInformer]func(any) (types.NamespacedName, bool){services.Informer(): ofService, all.Informer(): ofSlice} {
		add := func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if key, ok := of(o); ok {
				f.queue.Add(key)
			}
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, DeleteFunc: add, UpdateFunc: func(_, now any) { add(now) }}); err != nil {
			return fmt.Errorf("follow the Services of InferenceServices: %w", err)
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	defer context.AfterFunc(ctx, f.queue.ShutDown)()
	if started != nil && ctx.Err() == nil {
		started()
	}
	for f.next(ctx) {
	}
	return nil
}

func ofService(o any) (types.NamespacedName, bool) {
	s, ok := o.(*v1.Service)
	if !ok {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, true
}

func ofSlice(o any) (types.NamespacedName, bool) {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}, true
}

// next brings one Service up to date. It reports false at the end.
func (f *follower) next(ctx context.Context) bool {
	name, end := f.queue.Get()
	if end {
		return false
	}
	defer f.queue.Done(name)
	if err := f.sync(ctx, name); err != nil {
		f.set.o.Log.Warn("serve an InferenceService that has no ready pods", "service", name.String(), "err", err)
		f.queue.AddRateLimited(name)
		return true
	}
	f.queue.Forget(name)
	return true
}

// sync brings the gates of a Service, and this replica's slice of it, to what its
// EndpointSlices say.
func (f *follower) sync(ctx context.Context, name types.NamespacedName) error {
	svc, err := f.services.Services(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) || err == nil && svc.DeletionTimestamp != nil {
		f.set.leave(name, nil)
		return nil
	}
	if err != nil {
		return err
	}
	all, err := f.slices.EndpointSlices(name.Namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: name.Name}))
	if err != nil {
		return err
	}
	component := svc.Labels[LabelComponent]
	if component == "" {
		component = predictor
	}
	var had, want *discoveryv1.EndpointSlice
	for _, s := range all {
		if s.Name == f.set.sliceName(name.Name) && ours(s) {
			had = s
		}
	}
	waiting, keep := map[string]int32{}, map[key]bool{}
	for _, p := range svc.Spec.Ports {
		if p.Protocol != "" && p.Protocol != v1.ProtocolTCP {
			continue
		}
		k := key{name.Namespace, svc.Labels[LabelService], component, p.Name}
		keep[k] = true
		e, err := f.set.ensure(k, name.Name, p.Port, portIn(had, p.Name))
		if err != nil {
			return err
		}
		addresses, pods := ready(all, p.Name)
		f.set.setPods(e, addresses, pods)
		if len(addresses) == 0 {
			waiting[p.Name] = e.port
		}
	}
	f.set.leave(name, keep)
	if len(waiting) > 0 {
		want = f.set.slice(svc, waiting)
	}
	return f.set.write(ctx, had, want)
}
