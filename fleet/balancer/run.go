package balancer

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Run serves all Services of the cluster that want an address, until ctx ends. It needs
// the rights to list and watch Services. A failed Service is retried, later each time.
func (b *Balancer) Run(ctx context.Context) error {
	defer b.Close()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]())
	defer context.AfterFunc(ctx, queue.ShutDown)()
	factory := informers.NewSharedInformerFactory(b.client, 0)
	defer factory.Shutdown()
	services := factory.Core().V1().Services()
	add := func(o any) {
		if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if s, ok := o.(*v1.Service); ok {
			queue.Add(types.NamespacedName{Namespace: s.Namespace, Name: s.Name})
		}
	}
	_, err := services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: add, DeleteFunc: add, UpdateFunc: func(_, now any) { add(now) },
	})
	if err != nil {
		return fmt.Errorf("watch Services: %w", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for {
		key, end := queue.Get()
		if end {
			return ctx.Err()
		}
		s, err := services.Lister().Services(key.Namespace).Get(key.Name)
		switch {
		case apierrors.IsNotFound(err):
			b.Remove(key)
			err = nil
		case err == nil:
			err = b.Sync(ctx, s)
		}
		if err == nil {
			queue.Forget(key)
		} else {
			b.log.Error("serve a Service on this machine", "service", key.String(), "err", err)
			queue.AddRateLimited(key)
		}
		queue.Done(key)
	}
}
