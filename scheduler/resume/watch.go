package resume

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/quota/informer"
)

// Watch has suspended objects resumed through a handle of the scheduler as soon as there are Queues.
func Watch(ctx context.Context, h fwk.Handle, c *nodeindex.Cluster) error {
	core := h.SharedInformerFactory().Core().V1()
	nodes, pods := core.Nodes().Lister(), core.Pods().Lister()
	client, err := informer.ClientOf(h.KubeConfig())
	if err != nil {
		return err
	}
	r := &Resumer{
		Quota: c.Quota, Client: h.ClientSet(), Dynamic: client, Events: h.EventRecorder(),
		Nodes: func() []*v1.Node { list, _ := nodes.List(labels.Everything()); return list }, // stores of this process
		Pods:  func() []*v1.Pod { list, _ := pods.List(labels.Everything()); return list },
		Held: func() map[types.UID]string {
			c.Mu.Lock()
			defer c.Mu.Unlock()
			out := make(map[types.UID]string, len(c.Holds))
			for uid, hold := range c.Holds {
				out[uid] = hold.Node
			}
			return out
		},
	}
	r.Start(ctx)
	return nil
}

// Start has the Resumer follow objects from when there are Queues until ctx ends.
func (r *Resumer) Start(ctx context.Context) {
	r.wake, r.dirty, r.line = make(chan struct{}, 1), map[key]bool{}, newLine()
	r.Quota.ObjectsFrom(func() { go r.follow(ctx) }, func() {
		r.mu.Lock()
		r.freed = true
		r.mu.Unlock()
		r.poke()
	})
}

// follow watches objects, and resumes them, until ctx ends.
func (r *Resumer) follow(ctx context.Context) {
	from := informers.NewSharedInformerFactory(r.Client, 0)
	classes := from.Scheduling().V1().PriorityClasses()
	r.classes = classes.Lister()
	first := jobs(r.Client)
	err := r.watch(first, from.Batch().V1().Jobs().Informer())
	synced := []cache.InformerSynced{first.synced, classes.Informer().HasSynced}
	if err == nil {
		var now []*kind
		now, err = r.training(ctx)
		for _, k := range now {
			synced = append(synced, k.synced)
		}
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Suspended objects are not resumed")
		return
	}
	from.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) { // of all kinds: older objects are not overtaken
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-r.wake:
		}
		timer.Stop()
		if wait := r.pass(ctx, time.Now()); wait > 0 {
			timer.Reset(wait)
		}
	}
}
