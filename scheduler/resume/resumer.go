package resume

import (
	"context"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/api"
	"berth.dev/berth/scheduler/nodeindex"
	"berth.dev/berth/scheduler/quota"
)

// Resumer resumes suspended Jobs in their turn, for one scheduler. It decides in one goroutine.
type Resumer struct {
	Quota  *quota.Quota
	Client kubernetes.Interface
	Events events.EventRecorder
	// Nodes and Pods list what the API has; Held returns the nodes on which devices are held for
	// pods that have none yet.
	Nodes func() []*v1.Node
	Pods  func() []*v1.Pod
	Held  func() map[types.UID]string

	jobs    cache.Store
	classes schedulinglisters.PriorityClassLister
	wake    chan struct{}
	line    line

	mu    sync.Mutex
	dirty map[string]bool // Jobs that have changed, by namespace/name
	freed bool            // pods have ended
}

// Watch has suspended Jobs resumed through a handle of the scheduler as soon as there are Queues.
func Watch(ctx context.Context, h fwk.Handle, c *nodeindex.Cluster) {
	core := h.SharedInformerFactory().Core().V1()
	nodes, pods := core.Nodes().Lister(), core.Pods().Lister()
	r := &Resumer{
		Quota: c.Quota, Client: h.ClientSet(), Events: h.EventRecorder(),
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
}

// Start has the Resumer follow Jobs from when there are Queues until ctx ends.
func (r *Resumer) Start(ctx context.Context) {
	r.wake, r.dirty, r.line = make(chan struct{}, 1), map[string]bool{}, newLine()
	r.Quota.ObjectsFrom(func() { go r.follow(ctx) }, func() {
		r.mu.Lock()
		r.freed = true
		r.mu.Unlock()
		r.poke()
	})
}

// follow watches Jobs, and resumes them, until ctx ends.
func (r *Resumer) follow(ctx context.Context) {
	from := informers.NewSharedInformerFactory(r.Client, 0)
	jobs, classes := from.Batch().V1().Jobs().Informer(), from.Scheduling().V1().PriorityClasses()
	r.jobs, r.classes = jobs.GetStore(), classes.Lister()
	log := klog.FromContext(ctx)
	if err := jobs.SetTransform(slim); err != nil {
		log.Error(err, "Jobs are kept whole")
	}
	registered, err := jobs.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: r.changed, UpdateFunc: func(_, now any) { r.changed(now) }, DeleteFunc: r.changed,
	})
	if err != nil {
		log.Error(err, "Suspended Jobs are not resumed")
		return
	}
	synced := []cache.InformerSynced{registered.HasSynced, classes.Informer().HasSynced}
	from.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
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

// slim keeps of Jobs that do not ask for their turn only who they are.
func slim(obj any) (any, error) {
	j, ok := obj.(*batchv1.Job)
	if !ok {
		return obj, nil
	}
	if _, asks := j.Annotations[api.AnnotationResume]; !asks {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: j.Name, UID: j.UID, ResourceVersion: j.ResourceVersion}}, nil
	}
	j.ManagedFields = nil
	return j, nil
}

// changed notes that a Job has come, has changed, or is gone.
func (r *Resumer) changed(obj any) {
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	r.mu.Lock()
	r.dirty[name] = true
	r.mu.Unlock()
	r.poke()
}

func (r *Resumer) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
