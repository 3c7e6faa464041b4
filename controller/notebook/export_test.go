package notebook

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// FollowIstio is followIstio, for tests. watch gets the handler.
func (r *Reconciler) FollowIstio(ctx context.Context, again chan<- event.GenericEvent, watch func(toolscache.ResourceEventHandler)) error {
	return r.followIstio(ctx, again, func(_ context.Context, _ schema.GroupVersionKind, handler toolscache.ResourceEventHandler) error {
		watch(handler)
		return nil
	})
}

// Metrics are those of the package, with one that counts the notebooks of r.
func Metrics(r *Reconciler) []prometheus.Collector {
	m := &running{}
	m.leads.Store(r)
	return []prometheus.Collector{created, createFailed, m}
}

// Happened is happened.
var Happened = happened
