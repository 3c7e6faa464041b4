package notebook

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/event"
)

// FollowIstio is followIstio, for tests.
func (r *Reconciler) FollowIstio(ctx context.Context, again chan<- event.GenericEvent) error {
	return r.followIstio(ctx, again)
}
