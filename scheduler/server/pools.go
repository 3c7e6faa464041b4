package server

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/pool"
)

// poolsEvery is how often the declared pools and the nodes are looked at for the
// largest node that there may be.
const poolsEvery = 10 * time.Second

// largest is the largest node that there is, or that a declared pool may bring.
type largest struct {
	gpus     int64
	declared bool // pools are declared
}

// followPools keeps the largest node up to date until ctx ends, from the first
// moment when the nodes are known.
func followPools(ctx context.Context, client kubernetes.Interface, nodes corelisters.NodeLister, synced func() bool) func() (gpus int64, declared bool) {
	var now atomic.Pointer[largest]
	now.Store(&largest{})
	go wait.UntilWithContext(ctx, func(ctx context.Context) {
		if !synced() {
			return
		}
		l, err := lookAtPools(ctx, client, nodes)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("The declared pools are not known", "reason", err.Error())
			return
		}
		now.Store(l)
	}, poolsEvery)
	return func() (int64, bool) {
		l := now.Load()
		return l.gpus, l.declared
	}
}

func lookAtPools(ctx context.Context, client kubernetes.Interface, nodes corelisters.NodeLister) (*largest, error) {
	pools, err := pool.Read(ctx, client)
	if err != nil || len(pools) == 0 {
		return &largest{}, err
	}
	l := &largest{declared: true}
	for i := range pools {
		l.gpus = max(l.gpus, int64(pools[i].GPUs.Count))
	}
	list, err := nodes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	for _, n := range list {
		q := n.Status.Capacity[api.ResourceGPU]
		l.gpus = max(l.gpus, q.Value())
	}
	return l, nil
}
