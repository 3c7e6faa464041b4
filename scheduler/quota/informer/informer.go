// Package informer follows the Queues of an API server, and the pods, nodes, namespaces,
// and owners of pods that count for them, and feeds them to package quota. Where
// the API server serves no Queues, it asks again from time to time.
package informer

import (
	"sync"
	"sync/atomic"
	"time"

	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/kube/queues"
	schedulerquota "berth.dev/berth/scheduler/quota"
)

// Informer reads the Queues of an API server, and pods as these count them.
type Informer struct {
	quota      *schedulerquota.Quota
	nodes      corelisters.NodeLister
	namespaces corelisters.NamespaceLister
	known      func() // called when it is known which Queues there are

	mu      sync.Mutex
	store   cache.Store // of Queues; nil: they are not served
	timer   *time.Timer
	list    []*v1alpha1.Queue
	members *queues.Members // nil: there are no Queues
	asking  *queues.Members // of pods that ask for quota: as members, and owners may be asked for
	offers  *queues.Offers

	owners  *owners
	perUser atomic.Bool // some queue counts users
	lines   atomic.Pointer[queues.LinePriorities]
	kueue   *queues.Kueue // nil where no API server is asked

	startLines func() // called once, when there are Queues; nil: none are followed
	hasLines   sync.Once
}

// New returns an Informer that has read nothing and knows no owners of pods: it feeds q
// when Apply is called.
func New(q *schedulerquota.Quota, nodes corelisters.NodeLister, namespaces corelisters.NamespaceLister) *Informer {
	return &Informer{quota: q, nodes: nodes, namespaces: namespaces, known: func() {}, owners: &owners{}}
}
