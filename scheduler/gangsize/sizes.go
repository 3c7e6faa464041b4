// Package gangsize reads, from the objects that pods name (PodGroups, JobSets, Jobs), how
// many members gangs have.
package gangsize

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"berth.dev/berth/kube/request"
)

// askAgain is how often the API server is asked for a kind that it did not serve,
// or that may not be read, while pods name an object of it.
const askAgain = 10 * time.Second

// Sizes is how many members gangs have. A kind is watched from the first time that one of
// it is asked for, if the API server serves it; it may come to do so later. Sizes is safe
// for concurrent use.
type Sizes struct {
	ctx     context.Context //nolint:containedctx // the life of the watches, which begin when a pod names a kind
	client  dynamic.Interface
	changed func(kind request.GangKind, namespace, name string) // called without mu

	mu    sync.Mutex
	kinds map[request.GangKind]*objects
}

// objects is the objects of one kind.
type objects struct {
	why   string // why they cannot be read; "" is that they are
	least map[cache.ObjectName]int
	wrong map[cache.ObjectName]string
	since map[cache.ObjectName]time.Time
}

// New returns Sizes that read nothing yet.
func New() *Sizes { return &Sizes{kinds: map[request.GangKind]*objects{}} }

// Open lets s read until ctx ends. changed is called for objects that have come,
// changed or gone; without a name, of all of a kind.
func (s *Sizes) Open(ctx context.Context, config *rest.Config, changed func(kind request.GangKind, namespace, name string)) {
	s.ctx, s.changed = ctx, changed
	if config == nil {
		return
	}
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = "", "" // custom resources have JSON only
	if client, err := dynamic.NewForConfig(config); err == nil {
		s.client = client
	} else {
		klog.FromContext(ctx).Error(err, "Objects that count gangs cannot be read")
	}
}

// Of returns how many members the gang of an object has, or why that is not known.
func (s *Sizes) Of(o request.GangObject) (int, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kinds[o.Kind]
	if k == nil {
		k = &objects{why: "reading it"}
		s.kinds[o.Kind] = k
		if s.client != nil {
			go s.watch(o.Kind)
		}
	}
	key := cache.ObjectName{Namespace: o.Namespace, Name: o.Name}
	n, ok := k.least[key]
	switch {
	case k.why != "":
		return 0, fmt.Sprintf("its size is in %s, %s", o, k.why)
	case k.wrong[key] != "":
		return 0, k.wrong[key]
	case !ok:
		return 0, fmt.Sprintf("its size is in %s, and there is none: create it", o)
	}
	return n, ""
}

// Since returns when the training job that counts a gang was created; zero is for other objects, or not known. Its pods
// are as old as the job in the queue: those of a job that moves are new, and the job keeps its place.
func (s *Sizes) Since(o request.GangObject) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.kinds[o.Kind]; k != nil && (o.Kind == request.GangTFJob || o.Kind == request.GangPyTorchJob || o.Kind == request.GangTrainJob) {
		return k.since[cache.ObjectName{Namespace: o.Namespace, Name: o.Name}]
	}
	return time.Time{}
}

// say notes why a kind cannot be read; "" is that it is.
func (s *Sizes) say(kind request.GangKind, why string) {
	s.mu.Lock()
	k := s.kinds[kind]
	news := k.why != why
	k.why = why
	s.mu.Unlock()
	if news {
		s.changed(kind, "", "")
	}
}

// watch reads the objects of a kind from when they can be read.
func (s *Sizes) watch(kind request.GangKind) {
	for {
		_, err := s.client.Resource(kind.GVR()).List(s.ctx, metav1.ListOptions{Limit: 1})
		switch {
		case err == nil:
			s.follow(kind)
			return
		case apierrors.IsNotFound(err):
			s.say(kind, "which this cluster does not serve: install it, or use the annotations berth.dev/gang and berth.dev/gang-min-count")
		case apierrors.IsForbidden(err):
			s.say(kind, "which the scheduler cannot read: grant it the roles in deploy/scheduler.yaml")
		default:
			s.say(kind, "which cannot be read now")
		}
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(askAgain):
		}
	}
}

// follow keeps the sizes of a kind up to date until the context ends.
func (s *Sizes) follow(kind request.GangKind) {
	informer := dynamicinformer.NewFilteredDynamicInformer(s.client, kind.GVR(), metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	log := klog.FromContext(s.ctx)
	if err := informer.SetTransform(slim); err != nil {
		log.Error(err, "Objects that count gangs are kept whole", "kind", kind.String())
	}
	registered, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { s.note(kind, obj, false) },
		UpdateFunc: func(_, obj any) { s.note(kind, obj, false) },
		DeleteFunc: func(obj any) { s.note(kind, obj, true) },
	})
	if err != nil {
		log.Error(err, "Objects that count gangs are not watched", "kind", kind.String())
		return
	}
	go informer.RunWithContext(s.ctx)
	if cache.WaitForCacheSync(s.ctx.Done(), registered.HasSynced) {
		s.say(kind, "")
	}
}

// slim drops what is not needed of an object, pod templates above all.
func slim(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	u.SetManagedFields(nil)
	u.SetAnnotations(request.CountedBy(u.GetAnnotations()))
	unstructured.RemoveNestedField(u.Object, "spec", "template")
	for _, field := range []string{"tfReplicaSpecs", "pytorchReplicaSpecs"} {
		types, _, _ := unstructured.NestedMap(u.Object, "spec", field)
		for t := range types {
			unstructured.RemoveNestedField(u.Object, "spec", field, t, "template")
		}
	}
	return u, nil
}

// note takes an object as it is, or as it was before it went.
func (s *Sizes) note(kind request.GangKind, obj any, gone bool) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	key := cache.MetaObjectToName(u)
	n, err := kind.MinCount(u.Object)
	s.mu.Lock()
	k := s.kinds[kind]
	if k.least == nil {
		k.least, k.wrong, k.since = map[cache.ObjectName]int{}, map[cache.ObjectName]string{}, map[cache.ObjectName]time.Time{}
	}
	was, had := k.least[key]
	delete(k.least, key)
	delete(k.wrong, key)
	if k.since[key] = u.GetCreationTimestamp().Time; gone {
		delete(k.since, key)
	}
	switch {
	case gone:
	case err != nil:
		k.wrong[key] = err.Error()
	default:
		k.least[key] = n
	}
	now, has := k.least[key]
	quiet := k.why != "" || was == now && had == has && err == nil
	s.mu.Unlock()
	if !quiet {
		s.changed(kind, key.Namespace, key.Name)
	}
}
