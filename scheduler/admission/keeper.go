package admission

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/snapshot"
)

// Keeper knows the largest GPU of a cluster, from the nodes that it is told of.
// Its methods may be called at the same time.
type Keeper struct {
	mu      sync.Mutex
	nodes   map[string]largest
	changed chan struct{} // has one entry if Largest may have changed
}

// largest is the largest GPU of one node, in MiB, and what it was read from.
type largest struct {
	from    [3]string
	mib     int64
	unknown bool // it has a GPU of which the memory is not known
}

// NewKeeper makes a Keeper that knows of no node.
func NewKeeper() *Keeper {
	return &Keeper{nodes: map[string]largest{}, changed: make(chan struct{}, 1)}
}

// Largest is the memory of the largest GPU in MiB, and 0 where there is none, or
// one of which the memory is not known.
func (k *Keeper) Largest() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	most := int64(0)
	for _, n := range k.nodes {
		if n.unknown {
			return 0
		}
		most = max(most, n.mib)
	}
	return most
}

// Handler tells the Keeper of nodes, as an informer of them.
func (k *Keeper) Handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { k.saw(obj.(*v1.Node)) },
		UpdateFunc: func(_, obj any) { k.saw(obj.(*v1.Node)) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if node, ok := obj.(*v1.Node); ok {
				k.mu.Lock()
				delete(k.nodes, node.Name)
				k.mu.Unlock()
				k.note()
			}
		},
	}
}

// saw reads a node, if what says its GPUs has changed.
func (k *Keeper) saw(node *v1.Node) {
	gpus := node.Status.Capacity[api.ResourceGPU]
	from := [3]string{node.Annotations[api.AnnotationInventory], node.Labels[api.LabelMemory] + " " + node.Labels[api.LabelProduct], gpus.String()}
	k.mu.Lock()
	was, known := k.nodes[node.Name]
	k.mu.Unlock()
	if known && was.from == from {
		return
	}
	now := largest{from: from}
	for _, g := range snapshot.ReadNode(node).Spec.GPUs {
		now.mib = max(now.mib, g.MemoryBytes>>20)
		now.unknown = now.unknown || g.MemoryBytes == 0
	}
	k.mu.Lock()
	k.nodes[node.Name] = now
	k.mu.Unlock()
	k.note()
}

func (k *Keeper) note() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// Run tells the largest GPU to apply whenever it changes, until ctx ends. One that
// fails is reported to failed, and tried again with the next change or after a
// minute.
func (k *Keeper) Run(ctx context.Context, apply func(ctx context.Context, largestMiB int64) error, failed func(error)) {
	applied := int64(-1)
	again := time.NewTicker(time.Minute)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.changed:
		case <-again.C:
		}
		now := k.Largest()
		if now == applied {
			continue
		}
		if err := apply(ctx, now); err != nil {
			if ctx.Err() == nil {
				failed(err)
			}
			continue
		}
		applied = now
	}
}
