package notebook

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/runtime"
)

// watcher starts a watch of the metadata of all objects of a kind. It returns at once,
// and the handler is called until ctx ends.
type watcher func(ctx context.Context, kind schema.GroupVersionKind, handler toolscache.ResourceEventHandler) error

// watchIn watches in a manager's cache.
func watchIn(c cache.Cache) watcher {
	return func(ctx context.Context, kind schema.GroupVersionKind, handler toolscache.ResourceEventHandler) error {
		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(kind)
		informer, err := c.GetInformer(ctx, m, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		_, err = informer.AddEventHandler(handler)
		return err
	}
}

// followIstio asks every minute whether the cluster serves VirtualServices. When it
// does, those of notebooks are watched, and if it did not before, all notebooks are
// sent to again: those at rest would not be looked at. It runs until ctx ends.
func (r *Reconciler) followIstio(ctx context.Context, again chan<- event.GenericEvent, watch watcher) error {
	handler := r.routeHandler(ctx, again)
	for wait := time.Duration(0); ; wait = noIstioFor {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
			if r.o.Mode != nil && r.o.Mode() != runtime.Own {
				continue
			}
			kind, ok, err := r.istioKind()
			if ok && watch != nil {
				if err = watch(ctx, kind, handler); err == nil {
					watch = nil // it goes on
				}
			}
			if err != nil {
				klog.ErrorS(err, "Could not find out whether the cluster serves VirtualServices, or watch them", "triedAgainAfter", noIstioFor)
			}
			continue
		case <-r.routable:
		}
		for _, q := range r.all(ctx, nil) {
			if !look(ctx, again, q.Namespace, q.Name) {
				return nil
			}
		}
	}
}

// look has a notebook reconciled, and reports whether it could before ctx ended.
func look(ctx context.Context, again chan<- event.GenericEvent, namespace, name string) bool {
	nb := &kubeflow.Notebook{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	select {
	case <-ctx.Done():
		return false
	case again <- event.GenericEvent{Object: nb}:
		return true
	}
}

// routeHandler has the notebook of a VirtualService reconciled whose spec was changed
// or which was deleted, by whomever.
func (r *Reconciler) routeHandler(ctx context.Context, again chan<- event.GenericEvent) toolscache.ResourceEventHandler {
	changed := func(o any) {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		route, ok := o.(client.Object)
		if !ok {
			return
		}
		owner := metav1.GetControllerOf(route)
		if owner == nil || owner.Kind != kubeflow.Kind || schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).Group != kubeflow.Group {
			return
		}
		r.mu.Lock()
		r.unsure[route.GetNamespace()+"/"+owner.Name] = true
		r.mu.Unlock()
		look(ctx, again, route.GetNamespace(), owner.Name)
	}
	return toolscache.ResourceEventHandlerFuncs{
		UpdateFunc: func(old, now any) {
			was, err := meta.Accessor(old)
			is, err2 := meta.Accessor(now)
			if err != nil || err2 != nil || was.GetGeneration() != is.GetGeneration() || metav1.GetControllerOf(is) == nil {
				changed(old) // whose owner it was, if it has none now
			}
		},
		DeleteFunc: changed,
	}
}

// routeChanged reports whether the notebook's VirtualService was changed since it was
// last read, and forgets it.
func (p *pass) routeChanged() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := p.unsure[p.id()]
	delete(p.unsure, p.id())
	return changed
}
