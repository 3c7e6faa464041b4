package informer

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"berth.dev/berth/kube/queues"
)

// followLines follows Kueue's WorkloadPriorityClasses from when they are served, until ctx ends.
func (w *Informer) followLines(ctx context.Context, client dynamic.Interface) {
	resource, ok := AwaitServed(ctx, client, queues.LineResources...)
	if !ok {
		return
	}
	informer := dynamicinformer.NewFilteredDynamicInformer(client, resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	changed := func() {
		var list []*unstructured.Unstructured
		for _, o := range informer.GetStore().List() {
			list = append(list, o.(*unstructured.Unstructured))
		}
		lines := queues.NewLinePriorities(list)
		w.lines.Store(&lines)
		w.changed()
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() },
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "WorkloadPriorityClasses are not watched; the priority of pods counts in lines")
		return
	}
	informer.RunWithContext(ctx)
}
