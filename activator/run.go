package activator

import (
	"context"
	"errors"
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
	"k8s.io/client-go/util/workqueue"

	"berth.dev/berth/activator/gate"
	"berth.dev/berth/kube/serving"
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
	pods     corelisters.PodLister // nil without Options.Stay
	replicas *replicas             // nil without Options.Service
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
	err := errors.Join(
		services.Informer().SetTransform(slimService), f.follow(services.Informer(), f.ofService),
		all.Informer().SetTransform(slimSlice), f.follow(all.Informer(), f.ofSlice),
	)
	if s.o.Stay {
		pods := factory.Core().V1().Pods()
		f.pods = pods.Lister()
		err = errors.Join(err, pods.Informer().SetTransform(slimPod), f.follow(pods.Informer(), f.ofPod))
	}
	if of := s.o.Service; of.Name != "" {
		peers := informers.NewSharedInformerFactoryWithOptions(s.o.Client, 0, informers.WithNamespace(of.Namespace), informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = discoveryv1.LabelServiceName + "=" + of.Name
		}))
		defer peers.Shutdown()
		known := peers.Discovery().V1().EndpointSlices()
		f.replicas = &replicas{of, known.Lister()}
		err = errors.Join(err, known.Informer().SetTransform(slimSlice), f.follow(known.Informer(), func(any) []types.NamespacedName { return f.all() }))
		peers.Start(ctx.Done())
		peers.WaitForCacheSync(ctx.Done())
	}
	if err != nil {
		return fmt.Errorf("follow the Services of InferenceServices: %w", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	defer context.AfterFunc(ctx, f.queue.ShutDown)()
	if started != nil && ctx.Err() == nil {
		started()
	}
	s.follower.Store(f)
	for f.next(ctx) {
	}
	return nil
}

// Withdraw removes the slices of this replica, and makes no others: new requests then go to other replicas. Requests that it has
// go on while Run does.
func (s *Set) Withdraw(ctx context.Context) error {
	s.leaving.Store(true)
	f := s.follower.Load()
	if f == nil {
		return nil
	}
	var errs []error
	for _, name := range f.all() {
		errs = append(errs, f.sync(ctx, name))
	}
	return errors.Join(errs...)
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
	if apierrors.IsNotFound(err) || err == nil && (svc.DeletionTimestamp != nil || serving.IsCanary(svc.Labels)) {
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
	staying, pods, err := f.behind(svc)
	if err != nil {
		return err
	}
	by := undivided()
	if component == predictor {
		if by, err = f.splitOf(svc, staying); err != nil {
			return err
		}
	}
	limits, err := f.limits(svc)
	if err != nil {
		return err
	}
	waiting, keep := map[string]int32{}, map[key]bool{}
	for i := range svc.Spec.Ports {
		p := &svc.Spec.Ports[i]
		if p.Protocol != "" && p.Protocol != v1.ProtocolTCP {
			continue
		}
		k := key{name.Namespace, svc.Labels[LabelService], component, p.Name}
		keep[k] = true
		e, err := f.set.ensure(k, name.Name, p.Port, portIn(had, p.Name))
		if err != nil {
			return err
		}
		stable := ready(all, p.Name)
		if staying {
			stable = answering(pods, p)
		}
		e.service.SetLimits(limits)
		f.set.setPods(e, stable, by.at(p), by)
		if len(stable.addresses) == 0 || staying {
			waiting[p.Name] = e.port
		}
	}
	f.set.leave(name, keep)
	here, err := f.replicas.ready(f.set.o.Name)
	if err != nil {
		return err
	}
	if len(waiting) > 0 && here && !f.set.leaving.Load() {
		want = f.set.slice(svc, waiting)
	}
	return errors.Join(f.sweep(ctx, all), f.set.write(ctx, had, want))
}

// limits are those of the gates of a Service. The replicas of the activator share what one pod takes.
func (f *follower) limits(svc *v1.Service) (gate.Limits, error) {
	l := f.set.o.Limits
	if l.PerBackend = serving.BoundOf(svc); l.PerBackend == 0 {
		l.PerBackend = f.set.o.Limits.PerBackend
	}
	var err error
	l.Place, l.Gates, err = f.replicas.place(f.set.o.Name)
	return l, err
}

// behind reports whether the activator stays before a Service, and its pods if so.
func (f *follower) behind(svc *v1.Service) (bool, []*v1.Pod, error) {
	if f.pods == nil || !serving.ThroughActivator(svc) {
		return false, nil, nil
	}
	pods, err := f.pods.Pods(svc.Namespace).List(podsOf(svc))
	return true, pods, err
}
