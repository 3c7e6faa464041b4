package resume

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
	schedulerquota "berth.dev/berth/scheduler/quota"
)

// Resumer resumes suspended objects in their turn, for one scheduler. It decides in one goroutine.
type Resumer struct {
	Quota  *schedulerquota.Quota
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

// line is the objects that wait for their turn, and those that were resumed a moment ago.
type line struct {
	entries map[types.UID]*entry
	names   map[key]types.UID // of entries
	looked  time.Time         // when nodes were last looked at for those that wait for room
}

func newLine() line { return line{entries: map[types.UID]*entry{}, names: map[key]types.UID{}} }

// entry is one object.
type entry struct {
	kind   *kind
	object metav1.Object // as it was seen or written last
	waits  *queues.Suspended
	ask    *schedulerquota.Ask
	due    bool       // it is to be asked about now
	lack   quota.Lack // what it waits for
	again  time.Time  // when it is to be asked about again; zero: when something changes
	goes   bool       // it was resumed
	until  time.Time  // until when quota is kept for its pods, if it was; zero: it is not
}

// kind is one kind of objects that are resumed in their turn, as far as it is followed.
type kind struct {
	name string // such as "Job"
	// suspend is the spec that suspends an object, or resumes it.
	suspend func(bool) map[string]any
	patch   func(ctx context.Context, namespace, name string, patch []byte) (metav1.Object, error)
	store   cache.Store
	synced  cache.InformerSynced
}

// key names an object.
type key struct {
	kind *kind
	name string // namespace/name
}
