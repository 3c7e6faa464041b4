package queue

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// owners reads the metadata of objects that pods are made for, each once: who an object was
// created for does not change.
type owners struct {
	reader client.Reader // of the API server itself
	known  map[types.UID]*metav1.PartialObjectMetadata
}

// mostOwners is how many objects are remembered.
const mostOwners = 100_000

// of is request.Owners. What cannot be read is asked for again when such a pod changes.
func (o *owners) of(ctx context.Context, namespace string, ref *metav1.OwnerReference) metav1.Object {
	if m := o.known[ref.UID]; m != nil {
		return m
	}
	group, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil
	}
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(group.WithKind(ref.Kind))
	if err := o.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, m); err != nil {
		return nil
	}
	if len(o.known) >= mostOwners {
		clear(o.known)
	}
	m.ManagedFields = nil
	o.known[m.UID] = m
	return m
}
