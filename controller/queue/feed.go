package queue

import (
	"context"
	"fmt"
	"maps"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api"
	"berth.dev/berth/controller/runtime"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/kube/request"
	"berth.dev/berth/kube/training"
)

// counted says what of pods, nodes and namespaces is kept: of pods without GPUs only their names.
func counted() map[client.Object]cache.ByObject {
	shared := true
	out := map[client.Object]cache.ByObject{
		&corev1.Pod{}:       {Transform: runtime.SlimPod(slimStatus), UnsafeDisableDeepCopy: &shared},
		&corev1.Node{}:      {Transform: slimNode, UnsafeDisableDeepCopy: &shared},
		&corev1.Namespace{}: {Transform: slimNamespace, UnsafeDisableDeepCopy: &shared},
		&batchv1.Job{}:      {Transform: queues.Slim, UnsafeDisableDeepCopy: &shared},

		&schedulingv1.PriorityClass{}: {Transform: cache.TransformStripManagedFields(), UnsafeDisableDeepCopy: &shared},
	}
	for _, kind := range training.Kinds() {
		out[trainingJob(kind)] = cache.ByObject{Transform: queues.Slim, UnsafeDisableDeepCopy: &shared}
	}
	return out
}

// slimStatus keeps of the status of a pod what quotas count.
func slimStatus(s *corev1.PodStatus) corev1.PodStatus {
	return corev1.PodStatus{Phase: s.Phase, Conditions: s.Conditions, StartTime: s.StartTime}
}

// slimNode keeps of a node how it offers its GPUs.
func slimNode(o any) (any, error) {
	if n, ok := o.(*corev1.Node); ok {
		n.SetManagedFields(nil)
		n.Spec = corev1.NodeSpec{}
		n.Status = corev1.NodeStatus{Allocatable: n.Status.Allocatable, Capacity: n.Status.Capacity}
	}
	return o, nil
}

// slimNamespace keeps the labels of a namespace.
func slimNamespace(o any) (any, error) {
	n, ok := o.(*corev1.Namespace)
	if !ok {
		return o, nil
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, Labels: n.Labels, ResourceVersion: n.ResourceVersion}}, nil
}

// feed gathers changes of pods, nodes and namespaces until they are counted.
type feed struct {
	stop context.CancelFunc
	poke func()

	mu sync.Mutex
	// What has changed: an object as it is now, or nil where it is gone.
	pods       map[string]*corev1.Pod       // by UID
	nodes      map[string]*corev1.Node      // by name
	namespaces map[string]*corev1.Namespace // by name
	resumables map[string]client.Object     // Jobs and training jobs, by UID
	classes    map[string]*schedulingv1.PriorityClass
	lines      queues.LinePriorities // nil: they have not changed
	kueue      bool                  // it runs, or that is not known
}

// follow watches what queues count, until its stop is called or ctx ends, and returns when
// all has been seen.
func (c *controller) follow(ctx context.Context) (*feed, error) {
	watched, err := c.open()
	if err != nil {
		return nil, fmt.Errorf("watch what queues count: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{stop: cancel, poke: c.poke}
	f.clear()
	go watched.Start(ctx) //nolint:errcheck // it ends with ctx
	var synced []toolscache.InformerSynced
	for object, handler := range map[client.Object]toolscache.ResourceEventHandler{
		&corev1.Pod{}: follows(f, &f.pods, func(p *corev1.Pod) string { return string(p.UID) }, func(old, now *corev1.Pod) bool {
			return request.AsksForGPUs(now)
		}),
		&corev1.Node{}: follows(f, &f.nodes, func(n *corev1.Node) string { return n.Name }, func(old, now *corev1.Node) bool {
			return old == nil || !devices.SameOffer(old, now) || old.Annotations[api.AnnotationObserved] != now.Annotations[api.AnnotationObserved]
		}),
		&corev1.Namespace{}: follows(f, &f.namespaces, func(n *corev1.Namespace) string { return n.Name }, func(old, now *corev1.Namespace) bool {
			return old == nil || !maps.Equal(old.Labels, now.Labels)
		}),
		&batchv1.Job{}:                f.suspendable(),
		&schedulingv1.PriorityClass{}: follows(f, &f.classes, func(c *schedulingv1.PriorityClass) string { return c.Name }, func(old, now *schedulingv1.PriorityClass) bool { return true }),
	} {
		informer, err := watched.GetInformer(ctx, object)
		if err != nil {
			cancel()
			return nil, fmt.Errorf("watch what queues count: %w", err)
		}
		registered, err := informer.AddEventHandler(handler)
		if err != nil {
			cancel()
			return nil, fmt.Errorf("watch what queues count: %w", err)
		}
		synced = append(synced, registered.HasSynced)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		cancel()
		return nil, fmt.Errorf("watch what queues count: %w", context.Cause(ctx))
	}
	go f.followLines(ctx, watched, c.client.RESTMapper())
	f.followKueue(ctx, queues.NewKueue(c.served))
	f.followTraining(ctx, watched, c.client.RESTMapper())
	return f, nil
}

// suspendable notes the changes of objects that can be resumed in their turn.
func (f *feed) suspendable() toolscache.ResourceEventHandler {
	return follows(f, &f.resumables, func(o client.Object) string { return string(o.GetUID()) }, func(old, now client.Object) bool {
		return queues.AsksForTurn(now) || old != nil && queues.AsksForTurn(old)
	})
}

func (f *feed) clear() {
	f.pods, f.nodes, f.namespaces = map[string]*corev1.Pod{}, map[string]*corev1.Node{}, map[string]*corev1.Namespace{}
	f.lines = nil
	f.resumables, f.classes = map[string]client.Object{}, map[string]*schedulingv1.PriorityClass{}
}

// follows notes the changes of a kind that matter.
func follows[T client.Object](f *feed, into *map[string]T, key func(T) string, matters func(old, now T) bool) toolscache.ResourceEventHandler {
	var none T
	note := func(key string, now T) {
		f.mu.Lock()
		(*into)[key] = now
		f.mu.Unlock()
		f.poke()
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if now := o.(T); matters(none, now) {
				note(key(now), now)
			}
		},
		UpdateFunc: func(was, is any) {
			old, now := was.(T), is.(T)
			if key(old) != key(now) {
				note(key(old), none)
				old = none
			}
			if matters(old, now) {
				note(key(now), now)
			}
		},
		DeleteFunc: func(o any) {
			if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if was, ok := o.(T); ok && matters(none, was) {
				note(key(was), none)
			}
		},
	}
}

// drain counts what has changed.
func (f *feed) drain(t *tally) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, n := range f.namespaces {
		t.setNamespace(name, n)
	}
	for name, n := range f.nodes {
		t.setNode(name, n)
	}
	for name, c := range f.classes {
		t.setClass(name, c)
	}
	if f.lines != nil {
		t.lines = f.lines
	}
	if f.kueue != t.kueue {
		t.kueue, t.stale = f.kueue, true
	}
	for uid, p := range f.pods {
		t.setPod(uid, p)
	}
	for uid, o := range f.resumables {
		t.setResumable(uid, o)
	}
	f.clear()
}
