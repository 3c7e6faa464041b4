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

// LargestGPU tracks the memory of the largest GPU of a cluster, by its nodes.
// Its methods may be called at the same time.
type LargestGPU struct {
	mu      sync.Mutex
	nodes   map[string]nodeLargest
	changed chan struct{} // has one entry if MiB may have changed
}

// nodeLargest is the largest GPU of one node, in MiB, and what it was read from.
type nodeLargest struct {
	from    [3]string
	mib     int64
	unknown bool // it has a GPU of which the memory is not known
}

// NewLargestGPU returns a LargestGPU of no nodes.
func NewLargestGPU() *LargestGPU {
	return &LargestGPU{nodes: map[string]nodeLargest{}, changed: make(chan struct{}, 1)}
}

// MiB is the memory of the largest GPU in MiB, and 0 where there is none, or
// one of which the memory is not known.
func (l *LargestGPU) MiB() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := int64(0)
	for _, n := range l.nodes {
		if n.unknown {
			return 0
		}
		most = max(most, n.mib)
	}
	return most
}

// Handler is for an informer of nodes.
func (l *LargestGPU) Handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { l.saw(obj.(*v1.Node)) },
		UpdateFunc: func(_, obj any) { l.saw(obj.(*v1.Node)) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if node, ok := obj.(*v1.Node); ok {
				l.mu.Lock()
				delete(l.nodes, node.Name)
				l.mu.Unlock()
				l.note()
			}
		},
	}
}

// saw reads a node, if what says its GPUs has changed.
func (l *LargestGPU) saw(node *v1.Node) {
	gpus := node.Status.Capacity[api.ResourceGPU]
	from := [3]string{node.Annotations[api.AnnotationInventory], node.Labels[api.LabelMemory] + " " + node.Labels[api.LabelProduct], gpus.String()}
	l.mu.Lock()
	was, known := l.nodes[node.Name]
	l.mu.Unlock()
	if known && was.from == from {
		return
	}
	now := nodeLargest{from: from}
	for _, g := range snapshot.ReadNode(node).Spec.GPUs {
		now.mib = max(now.mib, g.MemoryBytes>>20)
		now.unknown = now.unknown || g.MemoryBytes == 0
	}
	l.mu.Lock()
	l.nodes[node.Name] = now
	l.mu.Unlock()
	l.note()
}

func (l *LargestGPU) note() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Run tells the largest GPU to apply whenever it changes, until ctx ends. One that
// fails is reported to failed, and tried again with the next change or after a
// minute.
func (l *LargestGPU) Run(ctx context.Context, apply func(ctx context.Context, largestMiB int64) error, failed func(error)) {
	applied := int64(-1)
	again := time.NewTicker(time.Minute)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.changed:
		case <-again.C:
		}
		now := l.MiB()
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
