// Package informer follows the Queues of an API server, and the pods, nodes, namespaces,
// and owners of pods that count for them, and feeds them to package quota. Where
// the API server serves no Queues, it asks again from time to time.
package informer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
	"berth.dev/berth/scheduler/queue"
	schedulerquota "berth.dev/berth/scheduler/quota"
)

// Watch has q count the pods of a handle, with its nodes and namespaces, by the Queues of its API
// server as soon as that serves them.
func Watch(ctx context.Context, h fwk.Handle, q *schedulerquota.Quota) error {
	q.CallBy(func(pods []*v1.Pod) { queue.Activate(h, klog.FromContext(ctx), pods...) })
	factory := h.SharedInformerFactory()
	pods, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(pod any) { q.Seen(pod.(*v1.Pod)) },
		UpdateFunc: func(_, pod any) { q.Seen(pod.(*v1.Pod)) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if pod, ok := obj.(*v1.Pod); ok {
				q.Gone(pod.UID)
			}
		},
	})
	if err != nil {
		return err
	}
	q.Register()
	w := New(q, factory.Core().V1().Nodes().Lister(), factory.Core().V1().Namespaces().Lister())
	w.known, q.Situation = q.AwaitQueues(), w.situation
	looks := cache.ResourceEventHandlerFuncs{
		AddFunc: func(now any) { w.changedIf(nil, now) }, UpdateFunc: w.changedIf, DeleteFunc: w.gone,
	}
	for _, informer := range []cache.SharedIndexInformer{factory.Core().V1().Nodes().Informer(), factory.Core().V1().Namespaces().Informer()} {
		if _, err := informer.AddEventHandler(looks); err != nil {
			return err
		}
	}
	client, err := ClientOf(h.KubeConfig())
	if err == nil {
		w.owners, err = newOwners(ctx, h.KubeConfig(), w.changed)
	}
	if err != nil || client == nil {
		w.known()
		return err
	}
	go w.follow(ctx, client, h.ClientSet().Discovery(), pods.HasSynced)
	return nil
}

// Informer reads the Queues of an API server, and pods as these count them.
type Informer struct {
	quota      *schedulerquota.Quota
	nodes      corelisters.NodeLister
	namespaces corelisters.NamespaceLister
	known      func() // called when it is known which Queues there are

	mu      sync.Mutex
	store   cache.Store // of Queues; nil: they are not served
	timer   *time.Timer
	list    []*v1alpha1.Queue
	members *queues.Members // nil: there are no Queues
	asking  *queues.Members // of pods that ask for quota: as members, and owners may be asked for
	offers  *queues.Offers

	owners  *owners
	perUser atomic.Bool // some queue counts users
	lines   atomic.Pointer[queues.LinePriorities]
	kueue   atomic.Bool // Kueue runs, or that is not known

	startLines func() // called once, when there are Queues; nil: none are followed
	hasLines   sync.Once
}

// New returns an Informer that has read nothing and knows no owners of pods: it feeds q
// when Apply is called.
func New(q *schedulerquota.Quota, nodes corelisters.NodeLister, namespaces corelisters.NamespaceLister) *Informer {
	return &Informer{quota: q, nodes: nodes, namespaces: namespaces, known: func() {}, owners: &owners{}}
}

// follow reads Queues from when they are served, until ctx ends.
func (w *Informer) follow(ctx context.Context, client dynamic.Interface, served discovery.ServerResourcesInterface, pods cache.InformerSynced) {
	log := klog.FromContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), pods) {
		return
	}
	said := ""
	for began := time.Now(); ; {
		_, err := client.Resource(v1alpha1.Queues).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			break
		}
		if apierrors.IsNotFound(err) {
			w.known()
		} else {
			if reason := err.Error(); reason != said {
				said = reason
				log.Info("Queues cannot be read; no quota is counted until they can", "reason", reason)
			}
			if apierrors.IsForbidden(err) {
				w.known()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause(began)):
		}
	}
	w.quota.SaveEvicted(func(queue string, list []quota.Evicted) error { return saveEvicted(ctx, client, queue, list) })
	informer := dynamicinformer.NewFilteredDynamicInformer(client, v1alpha1.Queues, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	registered, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.changed() }, DeleteFunc: func(any) { w.changed() },
		UpdateFunc: func(old, now any) {
			was, is := old.(*unstructured.Unstructured), now.(*unstructured.Unstructured)
			switch {
			case was.GetGeneration() != is.GetGeneration(), holds(was) != holds(is):
				w.changed()
			case !equality.Semantic.DeepEqual(kept(was), kept(is)):
				w.quota.SetUsed(decode(is))
			}
		},
	})
	if err != nil {
		log.Error(err, "Queues are not watched; no quota is counted")
		return
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), registered.HasSynced) {
		return
	}
	if !w.findKueue(served) {
		go w.followKueue(ctx, served)
	}
	w.startLines = func() { go w.followLines(ctx, client) }
	w.mu.Lock()
	w.store = informer.GetStore()
	w.mu.Unlock()
	w.read()
	w.known()
	if w.quota.OnRead != nil {
		w.quota.OnRead()
	}
}

// saveEvicted writes which workloads of a queue were evicted to return quota.
func saveEvicted(ctx context.Context, client dynamic.Interface, queue string, list []quota.Evicted) error {
	raw, err := json.Marshal(map[string]any{"status": map[string]any{"evictions": queues.EvictionsOf(list)}})
	if err != nil {
		return err
	}
	_, err = client.Resource(v1alpha1.Queues).Patch(ctx, queue, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "berth-scheduler"}, "status")
	if ctx.Err() != nil {
		return nil //nolint:nilerr // another scheduler goes on
	}
	if apierrors.IsNotFound(err) { // the queue is gone
		return nil
	}
	return err
}

// kept is the part of the status of a Queue that the scheduler reads. It changes seldom; the rest, such as
// how much pods hold, changes often.
func kept(o *unstructured.Unstructured) [2]any {
	usage, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "usage") // nil if there is none
	evictions, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "evictions")
	return [2]any{usage, evictions}
}

// holds reports whether a Queue holds new work as its budget is spent.
func holds(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(decode(o), queues.Holds)
}

// gather is how long changes are gathered before the queues are read again.
const gather = 50 * time.Millisecond

// changed has the queues read again soon.
func (w *Informer) changed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.store != nil && w.timer == nil {
		w.timer = time.AfterFunc(gather, w.read)
	}
}

// read reads the queues.
func (w *Informer) read() {
	w.mu.Lock()
	store := w.store
	w.timer = nil
	w.mu.Unlock()
	w.Apply(decode(store.List()...))
}

// decode reads Queues. One that cannot be read is left out, and said.
func decode(objects ...any) (list []*v1alpha1.Queue) {
	for _, obj := range objects {
		queue := &v1alpha1.Queue{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.(*unstructured.Unstructured).Object, queue); err != nil {
			klog.Background().Error(fmt.Errorf("read queue: %w", err), "A Queue is left out")
			continue
		}
		list = append(list, queue)
	}
	return list
}
