package notebook

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// FollowIstio is followIstio, for tests.
func (r *Reconciler) FollowIstio(ctx context.Context, again chan<- event.GenericEvent) error {
	return r.followIstio(ctx, again)
}

// Metrics are those of the package, with one that counts the notebooks of r.
func Metrics(r *Reconciler) []prometheus.Collector {
	m := &running{}
	m.leads.Store(r)
	return []prometheus.Collector{created, createFailed, m}
}
