package fleet

import (
	"context"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"berth.dev/berth/api"
)

// watch starts what follows the API server: nodes, pods and volumes. It uses
// reflectors with stores of its own instead of informers: the engine keeps the
// objects anyway, and it needs the events in their order.
func (f *Fleet) watch(ctx context.Context, wg *sync.WaitGroup) {
	nodes := f.client.CoreV1().Nodes()
	follow(ctx, wg, f, &v1.Node{}, &nodeStore{f}, "", api.LabelSimulated+"=true",
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return nodes.List(ctx, o) },
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return nodes.Watch(ctx, o) })
	pods := f.client.CoreV1().Pods("")
	follow(ctx, wg, f, &v1.Pod{}, &podStore{f}, "spec.nodeName!=", "",
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return pods.List(ctx, o) },
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return pods.Watch(ctx, o) })
	f.watchVolumes(ctx, wg)
}

// follow runs one reflector until ctx ends.
func follow(ctx context.Context, wg *sync.WaitGroup, f *Fleet, kind any, store cache.ReflectorStore, field, label string,
	list cache.ListWithContextFunc, open cache.WatchFuncWithContext,
) {
	narrow := func(o *metav1.ListOptions) { o.FieldSelector, o.LabelSelector = field, label }
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			narrow(&o)
			return list(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			narrow(&o)
			return open(ctx, o)
		},
	}, f.client)
	r := cache.NewReflectorWithOptions(lw, kind, store, cache.ReflectorOptions{Name: "berth-fleet"})
	wg.Go(func() { r.RunWithContext(ctx) })
}

// newer reports whether resource version a is that of a later version than b.
// Versions that are not numbers count as newer.
func newer(a, b string) bool {
	x, err1 := strconv.ParseUint(a, 10, 64)
	y, err2 := strconv.ParseUint(b, 10, 64)
	return err1 != nil || err2 != nil || x > y
}

// podStore takes pods from the reflector, one after the other.
type podStore struct{ fleet *Fleet }

func (s *podStore) Add(obj any) error    { s.fleet.sawPod(obj.(*v1.Pod)); return nil }
func (s *podStore) Update(obj any) error { s.fleet.sawPod(obj.(*v1.Pod)); return nil }
func (s *podStore) Delete(obj any) error { s.fleet.lostPod(obj.(*v1.Pod)); return nil }
func (s *podStore) Resync() error        { return nil }

// Replace takes a whole list: after the start of the fleet, or when the watch
// broke. Pods that hold devices are taken first, so what a pod held before
// is never given to another.
func (s *podStore) Replace(list []any, _ string) error {
	there := map[string]bool{}
	for _, obj := range list {
		p := obj.(*v1.Pod)
		there[string(p.UID)] = true
	}
	for _, n := range s.fleet.sorted() {
		n.mu.Lock()
		var lost []*v1.Pod
		for _, p := range n.pods {
			if !there[string(p.api.UID)] {
				lost = append(lost, p.api)
			}
		}
		n.mu.Unlock()
		for _, p := range lost {
			s.fleet.lostPod(p)
		}
	}
	for pass := settleNamed; pass <= settleLast; pass++ {
		for _, obj := range list {
			if p := obj.(*v1.Pod); settles(p) == pass {
				s.fleet.sawPod(p)
			}
		}
	}
	s.fleet.once.Do(func() {
		close(s.fleet.synced)
		for _, n := range s.fleet.sorted() {
			s.fleet.queue.Add(n) // holders are known: GPUs may be partitioned
		}
	})
	return nil
}

// sawPod takes a pod that is new or has changed.
func (f *Fleet) sawPod(obj *v1.Pod) {
	n := f.find(obj.Spec.NodeName)
	if n == nil {
		return
	}
	obj.ManagedFields = nil
	now := f.now()
	n.mu.Lock()
	defer n.mu.Unlock()
	p, known := n.pods[obj.UID]
	if !known {
		p = newPod(n, obj, now)
		n.pods[obj.UID] = p
		p.admit()
		f.queue.Add(p)
		return
	}
	old := p.api
	if newer(obj.ResourceVersion, old.ResourceVersion) {
		p.update(obj)
	}
	if terminal(obj.Status.Phase) {
		p.finish(now, 137) // if someone else ended it
		p.release()
	}
	if obj.DeletionTimestamp != nil && !p.deleted || len(obj.Spec.ReadinessGates) > 0 || asksMore(old, obj) {
		f.queue.Add(p)
	}
}

// asksMore reports whether a pod asks its node for something that an earlier
// version of it did not.
func asksMore(old, now *v1.Pod) bool {
	return now.Generation != old.Generation || len(now.Spec.EphemeralContainers) != len(old.Spec.EphemeralContainers)
}

// lostPod takes a pod that is gone.
func (f *Fleet) lostPod(obj *v1.Pod) {
	n := f.find(obj.Spec.NodeName)
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[obj.UID]
	if p == nil {
		return
	}
	p.finish(f.now(), 137)
	p.gone = true
	p.release()
	f.forget(p)
	delete(n.pods, obj.UID)
	f.timers.set(&p.alarm, never)
	if p.plugin {
		f.queue.Add(n)
	}
}

// nodeStore takes the simulated nodes from the reflector.
type nodeStore struct{ fleet *Fleet }

func (s *nodeStore) Add(obj any) error    { s.fleet.sawNode(obj.(*v1.Node)); return nil }
func (s *nodeStore) Update(obj any) error { s.fleet.sawNode(obj.(*v1.Node)); return nil }
func (s *nodeStore) Delete(obj any) error { s.fleet.lostNode(obj.(*v1.Node).Name); return nil }
func (s *nodeStore) Resync() error        { return nil }

// Replace takes a whole list.
func (s *nodeStore) Replace(list []any, _ string) error {
	there := map[string]bool{}
	for _, obj := range list {
		there[obj.(*v1.Node).Name] = true
		s.fleet.sawNode(obj.(*v1.Node))
	}
	for _, n := range s.fleet.sorted() {
		if !there[n.name] {
			s.fleet.lostNode(n.name)
		}
	}
	return nil
}

// sawNode takes a node that is new or has changed: its faults, and which plugin
// configuration it asks for. Nodes that lost the label are no longer seen.
func (f *Fleet) sawNode(obj *v1.Node) {
	if obj.Labels[api.LabelSimulated] != "true" {
		return
	}
	n := f.find(obj.Name)
	if n == nil {
		if err := f.adopt(obj, nil); err != nil {
			f.log.Warn("a simulated node is left alone", "node", obj.Name, "error", err)
		}
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.take(obj)
}

// take takes a version of the Node object with all that it asks for, with mu
// held. The answer to a patch may report a fault before the watch does, which
// is then the older of the two; what is older is dropped.
func (n *node) take(obj *v1.Node) {
	if n.api != nil && !newer(obj.ResourceVersion, n.api.ResourceVersion) {
		return
	}
	obj.ManagedFields = nil
	n.api = obj
	n.setFaults(obj.Annotations[api.AnnotationFaults], n.fleet.now())
	if n.mig.asks(obj.Labels[api.LabelMIGConfig]); n.mig.due {
		n.fleet.queue.Add(n)
	}
	if key := obj.Labels[api.LabelPluginConfig]; key != n.config.key {
		n.config = configLabel{true, key}
		for _, p := range n.pods {
			if p.plugin {
				p.configure = true
				n.fleet.queue.Add(p)
			}
		}
	}
}

// lostNode forgets a node that was deleted or is no longer labeled.
func (f *Fleet) lostNode(name string) {
	n := f.find(name)
	if n == nil {
		return
	}
	f.mu.Lock()
	delete(f.nodes, name)
	f.mu.Unlock()
	f.ips.forget(name)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		p.gone = true
		p.release()
		f.forget(p)
		f.timers.set(&p.alarm, never)
	}
	f.timers.set(&n.alarm, never)
}
