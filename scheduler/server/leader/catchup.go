package leader

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// How a new leader catches up: how often it looks whether it has, how often it
// asks anew, and when it gives up.
const (
	lookAgain = 5 * time.Millisecond
	askAgain  = time.Second
	giveUp    = time.Minute
)

// boundPods selects the pods that count for a scheduler: those on a node that
// have not ended. The scheduler's own informer leaves out the ended ones too.
const boundPods = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

// Lister lists the metadata of pods in all namespaces, as the API server has it
// now.
type Lister func(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)

// written is the pod that was written last, of those that were asked for.
type written struct {
	uid     types.UID
	version string // resourceVersion; "" where there is no pod
}

// CatchUp returns when the scheduler's cache has every bound pod as the API
// server has it now, bindings of the leader before included. A standby's watch
// may lag behind, and a device given in that gap would be given twice.
//
// Watches tell the changes of one resource in the order of their versions, so it
// is enough that the cache has the pod that was written last. cached gives the
// version of a pod in it. A pod that is deleted meanwhile is not waited for: the
// API server is asked anew each second. After a minute it gives up.
func CatchUp(ctx context.Context, list Lister, cached func(types.UID) (version string, ok bool)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, giveUp, fmt.Errorf("the watch of pods is more than %s behind", giveUp))
	defer cancel()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		last, err := lastWritten(ctx, list)
		if err != nil {
			return fmt.Errorf("list the bound pods: %w", err)
		}
		ask := time.NewTimer(askAgain)
		for waiting := true; waiting; {
			if last.version == "" || has(cached, last) {
				ask.Stop()
				return nil
			}
			select {
			case <-ctx.Done():
				ask.Stop()
				return fmt.Errorf("catch up with the leader before: %w", context.Cause(ctx))
			case <-ask.C:
				waiting = false
			case <-look.C:
			}
		}
	}
}

// has says whether the cache has a pod at least as new as last.
func has(cached func(types.UID) (string, bool), last written) bool {
	version, ok := cached(last.uid)
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(version, last.version)
	return err == nil && order >= 0
}

// lastWritten asks for all bound pods, in pages, and gives the one of the highest
// version.
func lastWritten(ctx context.Context, list Lister) (written, error) {
	var last written
	options := metav1.ListOptions{FieldSelector: boundPods, Limit: 2000}
	for {
		page, err := list(ctx, options)
		if err != nil {
			return written{}, err
		}
		for i := range page.Items {
			p := &page.Items[i]
			if last.version != "" {
				order, err := resourceversion.CompareResourceVersion(p.ResourceVersion, last.version)
				if err != nil {
					return written{}, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
				}
				if order <= 0 {
					continue
				}
			}
			last = written{p.UID, p.ResourceVersion}
		}
		if page.Continue == "" {
			return last, nil
		}
		options.Continue = page.Continue
	}
}
