package queues

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/pause"
)

// Kueue is what is known of whether Kueue runs in a cluster: that its LocalQueues are served. Then objects with its
// label are left to it. Until it is known that it does not run it is taken to run, as no pod may be in two lines; while the API server does not answer,
// what was known before is kept. It is safe for concurrent use. A nil Kueue does not run.
type Kueue struct {
	served func(groupVersion string) (*metav1.APIResourceList, error)
	absent atomic.Bool // it is known that it does not run
}

// NewKueue returns a Kueue of which nothing is known yet. served says what an API server serves in a version of a group, as
// discovery asks it.
func NewKueue(served func(groupVersion string) (*metav1.APIResourceList, error)) *Kueue {
	return &Kueue{served: served}
}

// Runs reports whether Kueue runs, or may run.
func (k *Kueue) Runs() bool { return k != nil && !k.absent.Load() }

// Ask asks the API server. It reports whether Kueue certainly runs, and whether Runs returns something else than before.
func (k *Kueue) Ask() (certain, changed bool) {
	certain, err := k.ask()
	if err != nil {
		return false, false
	}
	was := k.absent.Swap(!certain)
	return certain, was == certain
}

// ask reports whether LocalQueues are served in one of their versions.
func (k *Kueue) ask() (bool, error) {
	for _, version := range []string{"kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1"} {
		list, err := k.served(version)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return false, err
		case slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "localqueues" }):
			return true, nil
		}
	}
	return false, nil
}

// Follow asks until Kueue certainly runs, or ctx ends, again and again after what wait returns for when it began. It calls changed
// whenever Runs returns something else than before.
func (k *Kueue) Follow(ctx context.Context, wait func(began time.Time) time.Duration, changed func()) {
	for began := time.Now(); pause.For(ctx, wait(began)); {
		certain, differs := k.Ask()
		if differs {
			changed()
		}
		if certain {
			return
		}
	}
}
