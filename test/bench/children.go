package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// children is what a client's watches have seen of the pods and Services of PyTorchJobs.
type children struct {
	stop func()

	mu             sync.Mutex
	pods, services arrivals
	news           chan struct{} // something was noted
}

// arrivals are objects by namespace and name, and when the last of them was first seen.
type arrivals struct {
	names map[string]bool
	last  time.Time
}

// watchChildren watches from now on. The caller calls stop.
func watchChildren(ctx context.Context, client *kubernetes.Clientset) (*children, error) {
	ctx, stop := context.WithCancel(ctx)
	c := &children{pods: arrivals{names: map[string]bool{}}, services: arrivals{names: map[string]bool{}}, news: make(chan struct{}, 1)}
	ours := informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "training.kubeflow.org/job-name" })
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, ours)
	c.stop = func() {
		stop()
		factory.Shutdown()
	}
	for informer, seen := range map[cache.SharedIndexInformer]*arrivals{
		factory.Core().V1().Pods().Informer(): &c.pods, factory.Core().V1().Services().Informer(): &c.services,
	} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { c.note(seen, o) }}); err != nil {
			c.stop()
			return nil, err
		}
	}
	factory.StartWithContext(ctx)
	for of, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			c.stop()
			return nil, fmt.Errorf("watch %s: %w", of, context.Cause(ctx))
		}
	}
	return c, nil
}

// note notes that an object is there.
func (c *children) note(seen *arrivals, o any) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if is, ok := o.(metav1.Object); ok {
		if name := is.GetNamespace() + "/" + is.GetName(); !seen.names[name] {
			seen.names[name], seen.last = true, now
		}
	}
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// await waits until n pods and n Services have been seen, and says when the last pod and the last Service were. It gives up after limit
// without a new one.
func (c *children) await(ctx context.Context, n int, limit time.Duration) (pod, service time.Time, err error) {
	for {
		c.mu.Lock()
		pods, services := len(c.pods.names), len(c.services.names)
		pod, service = c.pods.last, c.services.last
		c.mu.Unlock()
		if pods >= n && services >= n {
			return pod, service, nil
		}
		select {
		case <-ctx.Done():
			return pod, service, context.Cause(ctx)
		case <-c.news:
		case <-time.After(limit):
			return pod, service, fmt.Errorf("%d of %d pods and %d of as many Services are there, and none more for %s", pods, n, services, limit)
		}
	}
}
