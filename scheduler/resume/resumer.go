package resume

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/quota"
	"berth.dev/berth/scheduler/quota/informer"
)

// Resumer resumes suspended objects in their turn, for one scheduler. It decides in one goroutine.
type Resumer struct {
	Quota  *quota.Quota
	Client kubernetes.Interface
	// Dynamic reads and writes training jobs; nil is that there are none.
	Dynamic dynamic.Interface
	Events  events.EventRecorder
	// Nodes and Pods list what the API has; Held returns the nodes on which devices are held for
	// pods that have none yet.
	Nodes func() []*v1.Node
	Pods  func() []*v1.Pod
	Held  func() map[types.UID]string

	classes schedulinglisters.PriorityClassLister
	wake    chan struct{}
	line    line

	mu    sync.Mutex
	dirty map[key]bool // objects that have changed
	freed bool         // pods have ended
}

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

// changed notes that an object has come, has changed, or is gone.
func (r *Resumer) changed(k *kind, obj any) {
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	r.mu.Lock()
	r.dirty[key{k, name}] = true
	r.mu.Unlock()
	r.poke()
}

// changes returns the objects that have changed of kinds that have been read whole, and whether pods have ended.
func (r *Resumer) changes() (list []key, freed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.dirty {
		if k.kind.synced() {
			list = append(list, k)
			delete(r.dirty, k)
		}
	}
	freed, r.freed = r.freed, false
	return list, freed
}

func (r *Resumer) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
