package informer

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// ownerKinds are the kinds of objects whose user pods get, as kube/request.UserOf reads it.
var ownerKinds = map[schema.GroupKind]schema.GroupVersionResource{
	{Group: "apps", Kind: "ReplicaSet"}:                    {Group: "apps", Version: "v1", Resource: "replicasets"},
	{Group: "apps", Kind: "Deployment"}:                    {Group: "apps", Version: "v1", Resource: "deployments"},
	{Group: "apps", Kind: "StatefulSet"}:                   {Group: "apps", Version: "v1", Resource: "statefulsets"},
	{Group: "apps", Kind: "DaemonSet"}:                     {Group: "apps", Version: "v1", Resource: "daemonsets"},
	{Group: "batch", Kind: "Job"}:                          {Group: "batch", Version: "v1", Resource: "jobs"},
	{Group: "batch", Kind: "CronJob"}:                      {Group: "batch", Version: "v1", Resource: "cronjobs"},
	{Group: "kubeflow.org", Kind: "Notebook"}:              {Group: "kubeflow.org", Version: "v1", Resource: "notebooks"},
	{Group: "jobset.x-k8s.io", Kind: "JobSet"}:             {Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"},
	{Group: "kubeflow.org", Kind: "TFJob"}:                 {Group: "kubeflow.org", Version: "v1", Resource: "tfjobs"},
	{Group: "kubeflow.org", Kind: "PyTorchJob"}:            {Group: "kubeflow.org", Version: "v1", Resource: "pytorchjobs"},
	{Group: "trainer.kubeflow.org", Kind: "TrainJob"}:      {Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainjobs"},
	{Group: "", Kind: "ReplicationController"}:             {Group: "", Version: "v1", Resource: "replicationcontrollers"},
	{Group: "serving.kserve.io", Kind: "InferenceService"}: {Group: "serving.kserve.io", Version: "v1beta1", Resource: "inferenceservices"},
}

// owners reads the metadata of objects that own pods. A kind is watched from the first time
// that one of it is asked for.
type owners struct {
	ctx    context.Context //nolint:containedctx // the life of the watches, which begin when a pod names a kind
	client metadata.Interface
	read   func() // called when a kind has been read

	mu     sync.Mutex
	stores map[schema.GroupVersionResource]*ownerStore
	asked  map[types.UID]answer // of those that no store had
}

// answer is what the API server has answered about one object; nil is that there is none.
type answer struct {
	owner *metav1.PartialObjectMetadata
	at    time.Time
}

const (
	askedFor  = 10 * time.Second // how long an answer counts
	mostAsked = 1000             // answers that are kept
	askWithin = time.Second      // how long an answer may take
)

// ownerStore is the objects of one kind.
type ownerStore struct {
	informer cache.SharedIndexInformer
	synced   bool
}

// newOwners returns owners that read nothing yet; without an API server they never do.
func newOwners(ctx context.Context, config *rest.Config, read func()) (*owners, error) {
	o := &owners{ctx: ctx, read: read, stores: map[schema.GroupVersionResource]*ownerStore{}, asked: map[types.UID]answer{}}
	if config == nil {
		return o, nil
	}
	var err error
	o.client, err = metadata.NewForConfig(config)
	return o, err
}

// of is request.Owners, by what has been read.
func (o *owners) of(namespace string, ref *metav1.OwnerReference) metav1.Object {
	owner, _ := o.lookUp(namespace, ref)
	return owner
}

// find is of, for a pod that asks for quota: where its owner has not been read, the API server is
// asked for it. Watches of two kinds are not in step, and that of a kind begins with its first pod: else
// such pods would count for no known user, and pass the limit of theirs.
func (o *owners) find(namespace string, ref *metav1.OwnerReference) metav1.Object {
	owner, resource := o.lookUp(namespace, ref)
	if owner != nil || resource == nil {
		return owner
	}
	o.mu.Lock()
	last := o.asked[ref.UID]
	o.mu.Unlock()
	if now := time.Now(); last.at.IsZero() || now.Sub(last.at) >= askedFor {
		ctx, cancel := context.WithTimeout(o.ctx, askWithin)
		defer cancel()
		got, err := o.client.Resource(*resource).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if last = (answer{at: now}); err == nil && got.UID == ref.UID {
			last.owner = got
		}
		o.mu.Lock()
		if len(o.asked) >= mostAsked {
			clear(o.asked)
		}
		o.asked[ref.UID] = last
		o.mu.Unlock()
	}
	if last.owner == nil {
		return nil
	}
	return last.owner
}

// lookUp returns the owner that a reference names, if it has been read, and the kind to ask for if it
// has not; nil if it cannot be.
func (o *owners) lookUp(namespace string, ref *metav1.OwnerReference) (metav1.Object, *schema.GroupVersionResource) {
	group, err := schema.ParseGroupVersion(ref.APIVersion)
	resource, known := ownerKinds[schema.GroupKind{Group: group.Group, Kind: ref.Kind}]
	if err != nil || !known || o.client == nil {
		return nil, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.stores[resource]
	if s == nil {
		s = o.open(resource)
	}
	if s.synced {
		obj, there, err := s.informer.GetStore().GetByKey(namespace + "/" + ref.Name)
		if meta, is := obj.(*metav1.PartialObjectMetadata); err == nil && there && is && meta.UID == ref.UID {
			delete(o.asked, ref.UID)
			return meta, &resource
		}
	}
	if last := o.asked[ref.UID]; last.owner != nil {
		return last.owner, &resource
	}
	return nil, &resource
}

// open begins to watch a kind, with mu held.
func (o *owners) open(resource schema.GroupVersionResource) *ownerStore {
	informer := metadatainformer.NewFilteredMetadataInformer(o.client, resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	s := &ownerStore{informer: informer}
	o.stores[resource] = s
	go func() {
		go informer.RunWithContext(o.ctx)
		if cache.WaitForCacheSync(o.ctx.Done(), informer.HasSynced) {
			o.mu.Lock()
			s.synced = true
			o.mu.Unlock()
			o.read()
		}
	}()
	return s
}
