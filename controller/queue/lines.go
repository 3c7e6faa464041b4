package queue

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"berth.dev/berth/kube/queues"
)

// servedAgain is after how long an API server that does not serve a kind is asked again.
const servedAgain = time.Minute

// followLines follows Kueue's WorkloadPriorityClasses from when they are served, until ctx ends.
func (f *feed) followLines(ctx context.Context, watched cache.Cache, mapper meta.RESTMapper) {
	var kinds []schema.GroupVersionKind
	for _, r := range queues.LineResources {
		kinds = append(kinds, r.GroupVersion().WithKind(queues.LineKind))
	}
	kind, ok := served(ctx, mapper, kinds...)
	if !ok {
		return
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	informer, err := watched.GetInformer(ctx, u)
	if err == nil {
		changed := func() {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
			if err := watched.List(ctx, list); err != nil {
				return // it has ended
			}
			all := make([]*unstructured.Unstructured, len(list.Items))
			for i := range list.Items {
				all[i] = &list.Items[i]
			}
			f.mu.Lock()
			f.lines = queues.NewLinePriorities(all)
			f.mu.Unlock()
			f.poke()
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() },
		})
	}
	if err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "WorkloadPriorityClasses are not watched; the priority of pods counts in lines")
	}
}

// followKueue notes whether Kueue runs, now and until ctx ends.
func (f *feed) followKueue(ctx context.Context, k *queues.Kueue) {
	note := func() {
		f.mu.Lock()
		f.kueue = k.Runs()
		f.mu.Unlock()
		f.poke()
	}
	certain, _ := k.Ask()
	if note(); !certain {
		go k.Follow(ctx, func(time.Time) time.Duration { return servedAgain }, note)
	}
}

// served waits until one of some kinds is served, and returns it. ok is false when ctx has ended.
func served(ctx context.Context, mapper meta.RESTMapper, kinds ...schema.GroupVersionKind) (kind schema.GroupVersionKind, ok bool) {
	for {
		for _, kind := range kinds {
			if _, err := mapper.RESTMapping(kind.GroupKind(), kind.Version); err == nil {
				return kind, true
			}
		}
		select {
		case <-ctx.Done():
			return kind, false
		case <-time.After(servedAgain):
		}
	}
}
