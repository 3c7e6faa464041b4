package client

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"berth.dev/berth/core/user"
	"berth.dev/berth/kube/request"
)

// fewOwners is how many objects of a kind are read one by one; of more, all of the kind are
// listed.
const fewOwners = 20

// NameUsers has each pod that a controller created say its user itself, in the place of the
// object that it was created for: request.User returns it then. It reads the objects above the
// pods; a user that these do not show, or that may not be read, becomes user.Unknown. The
// pods must not be those of a cache.
func (c *Cluster) NameUsers(ctx context.Context, pods []*v1.Pod) {
	pods = slices.DeleteFunc(slices.Clone(pods), func(p *v1.Pod) bool { return request.StampOf(p).Controller == "" })
	if len(pods) == 0 {
		return
	}
	owners := ownerReader{found: map[ownerKey]metav1.Object{}}
	client, err := metadata.NewForConfig(c.Config)
	if err == nil {
		owners.client = client
		below := make([]metav1.Object, len(pods))
		for i, p := range pods {
			below[i] = p
		}
		for len(below) > 0 {
			below = owners.above(ctx, below)
		}
	}
	for _, p := range pods {
		request.SetStamp(p, user.Stamp{User: request.UserOf(p, owners.get)})
	}
}

// ownerKey is an object of a kind that is stamped.
type ownerKey struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

// ownerReader reads the metadata of owners, each once.
type ownerReader struct {
	client metadata.Interface
	found  map[ownerKey]metav1.Object // nil is that it is not there, or may not be read
}

// get implements request.Owners for what was read.
func (r *ownerReader) get(namespace string, ref *metav1.OwnerReference) metav1.Object {
	resource, ok := request.StampedKind(ref.APIVersion, ref.Kind)
	if !ok {
		return nil
	}
	return r.found[ownerKey{resource, namespace, ref.Name}]
}

// above reads the objects that others were created for, and returns those of them that were
// not read before and were created for others, too.
func (r *ownerReader) above(ctx context.Context, objects []metav1.Object) []metav1.Object {
	wanted := map[schema.GroupVersionResource][]ownerKey{}
	for _, o := range objects {
		of := request.StampOf(o).Controller
		for _, ref := range o.GetOwnerReferences() {
			resource, ok := request.StampedKind(ref.APIVersion, ref.Kind)
			key := ownerKey{resource, o.GetNamespace(), ref.Name}
			if _, known := r.found[key]; ok && !known && string(ref.UID) == of {
				r.found[key] = nil
				wanted[resource] = append(wanted[resource], key)
			}
		}
	}
	var out []metav1.Object
	for resource, keys := range wanted {
		r.read(ctx, resource, keys)
		for _, key := range keys {
			if o := r.found[key]; o != nil && request.StampOf(o).Controller != "" {
				out = append(out, o)
			}
		}
	}
	return out
}

// read reads objects of one kind.
func (r *ownerReader) read(ctx context.Context, resource schema.GroupVersionResource, keys []ownerKey) {
	if len(keys) <= fewOwners {
		for _, key := range keys {
			if o, err := r.client.Resource(resource).Namespace(key.namespace).Get(ctx, key.name, metav1.GetOptions{}); err == nil {
				r.found[key] = o
			}
		}
		return
	}
	list, err := paged(metav1.ListOptions{}, func(o metav1.ListOptions) ([]metav1.PartialObjectMetadata, string, error) {
		page, err := r.client.Resource(resource).List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.Continue, nil
	}, func(o *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
		key := ownerKey{resource, o.Namespace, o.Name}
		if _, wanted := r.found[key]; !wanted {
			return nil
		}
		out := *o // the rest of its page can be freed
		out.ManagedFields = nil
		return &out
	})
	if err != nil {
		return
	}
	for _, o := range list {
		r.found[ownerKey{resource, o.Namespace, o.Name}] = o
	}
}
