package pods

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"berth.dev/berth/kube/record"
	"berth.dev/berth/kube/request"
)

// API is the pods of one node as the API server has them, followed by a watch.
// Requests go to the API server only for what is asked for fresh, and while the
// watch has not begun. It needs the verbs list and watch on the pods of its node: every
// request has that field selector. It is safe for
// concurrent use.
type API struct {
	client rest.Interface
	node   string

	changed chan struct{} // of capacity 1

	gone func(p *v1.Pod) // is called for each pod with GPUs that is gone, without its mu; nil is not

	mu     sync.Mutex
	synced bool
	pods   map[string]*v1.Pod    // by namespace and name
	held   map[types.UID]*v1.Pod // those that ask for GPUs, as record.Slim has them, if gone is set
}

// FromAPI makes the source of a node's pods from a client for v1. Run follows
// them.
func FromAPI(client rest.Interface, node string) *API {
	return &API{client: client, node: node, changed: make(chan struct{}, 1), pods: map[string]*v1.Pod{}}
}

// OnGone has f called with each pod that asked for GPUs and is gone from the API server, as record.Slim had it last. It is called before Run.
func (a *API) OnGone(f func(p *v1.Pod)) { a.gone, a.held = f, map[types.UID]*v1.Pod{} }

// Run follows the pods until ctx ends. It returns nil.
func (a *API) Run(ctx context.Context) error {
	watch := cache.NewListWatchFromClient(a.client, "pods", metav1.NamespaceAll, a.selector())
	r := cache.NewReflectorWithOptions(watch, &v1.Pod{}, (*store)(a), cache.ReflectorOptions{Name: "pods of " + a.node})
	r.RunWithContext(ctx)
	return nil
}

func (a *API) selector() fields.Selector { return fields.OneTermEqualSelector("spec.nodeName", a.node) }

// Changed has a value after a pod has come, changed or gone.
func (a *API) Changed() <-chan struct{} { return a.changed }

// Pod returns the pod of a UID, or nil.
func (a *API) Pod(ctx context.Context, uid string, fresh bool) (*v1.Pod, error) {
	pods, err := a.Pods(ctx, fresh)
	return find(pods, uid), err
}

// Pods returns all pods that are bound to the node.
func (a *API) Pods(ctx context.Context, fresh bool) ([]*v1.Pod, error) {
	if a.mu.Lock(); a.synced && !fresh {
		defer a.mu.Unlock()
		out := make([]*v1.Pod, 0, len(a.pods))
		for _, p := range a.pods {
			out = append(out, p)
		}
		return out, nil
	}
	a.mu.Unlock()
	var list v1.PodList
	err := a.client.Get().Resource("pods").
		VersionedParams(&metav1.ListOptions{FieldSelector: a.selector().String()}, metav1.ParameterCodec).Do(ctx).Into(&list)
	if err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", a.node, err)
	}
	out := make([]*v1.Pod, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, trim(&list.Items[i]))
	}
	return out, nil
}

// store is what the reflector writes to.
type store API

func (s *store) put(obj any) error {
	p, ok := obj.(*v1.Pod)
	if !ok {
		return fmt.Errorf("the API server sent a %T among pods", obj)
	}
	s.mu.Lock()
	s.pods[p.Namespace+"/"+p.Name] = trim(p)
	s.hold(p)
	s.mu.Unlock()
	signal(s.changed)
	return nil
}

// hold notes a pod for when it is gone.
func (s *store) hold(p *v1.Pod) {
	if s.gone != nil && request.AsksForGPUs(p) {
		s.held[p.UID] = record.Slim(p)
	}
}

// release returns the pod of a UID if it was noted, as it is now, and forgets it.
func (s *store) release(p *v1.Pod) *v1.Pod {
	if s.gone == nil || s.held[p.UID] == nil {
		return nil
	}
	delete(s.held, p.UID)
	return record.Slim(p)
}

// Add notes a pod that has come.
func (s *store) Add(obj any) error { return s.put(obj) }

// Update notes a pod that has changed.
func (s *store) Update(obj any) error { return s.put(obj) }

// Delete forgets a pod that has gone.
func (s *store) Delete(obj any) error {
	p, ok := obj.(*v1.Pod)
	if !ok {
		return fmt.Errorf("the API server sent a %T among pods", obj)
	}
	s.mu.Lock()
	delete(s.pods, p.Namespace+"/"+p.Name)
	gone := s.release(p)
	s.mu.Unlock()
	if gone != nil {
		s.gone(gone)
	}
	signal(s.changed)
	return nil
}

// Replace takes what a list says, from which the watch goes on.
func (s *store) Replace(list []any, _ string) error {
	pods, there := make(map[string]*v1.Pod, len(list)), make(map[types.UID]*v1.Pod, len(list))
	for _, obj := range list {
		p, ok := obj.(*v1.Pod)
		if !ok {
			return fmt.Errorf("the API server sent a %T among pods", obj)
		}
		pods[p.Namespace+"/"+p.Name] = trim(p)
		there[p.UID] = p
	}
	var gone []*v1.Pod
	s.mu.Lock()
	s.pods, s.synced = pods, true
	for uid, p := range s.held {
		if there[uid] == nil {
			gone = append(gone, p)
			delete(s.held, uid)
		}
	}
	for _, p := range there {
		s.hold(p)
	}
	s.mu.Unlock()
	for _, p := range gone {
		s.gone(p)
	}
	signal(s.changed)
	return nil
}

// Resync does nothing: no caller waits for what has not changed.
func (s *store) Resync() error { return nil }
