package informer

import (
	"context"
	"time"

	"k8s.io/client-go/discovery"

	"berth.dev/berth/kube/queues"
)

// findKueue notes whether Kueue runs, and reports it. If that cannot be known, it is taken to run: what carries its label is
// left to it.
func (w *Informer) findKueue(d discovery.ServerResourcesInterface) (runs bool) {
	runs, err := queues.KueueRuns(d.ServerResourcesForGroupVersion)
	if now := runs || err != nil; w.kueue.Swap(now) != now {
		w.changed()
	}
	return runs
}

// followKueue is findKueue until Kueue runs, or ctx ends.
func (w *Informer) followKueue(ctx context.Context, d discovery.ServerResourcesInterface) {
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause(began)):
		}
		if w.findKueue(d) {
			return
		}
	}
}
