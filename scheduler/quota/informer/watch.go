package informer

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
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
	w.kueue = queues.NewKueue(h.ClientSet().Discovery().ServerResourcesForGroupVersion)
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
	go w.follow(ctx, client, pods.HasSynced)
	return nil
}

// follow reads Queues from when they are served, until ctx ends.
func (w *Informer) follow(ctx context.Context, client dynamic.Interface, pods cache.InformerSynced) {
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
	if certain, _ := w.kueue.Ask(); !certain {
		go w.kueue.Follow(ctx, pause, w.changed)
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
