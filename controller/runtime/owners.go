package runtime

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/internal/rights"
)

// Owners reads the metadata of objects that pods are made for, each once: who an object was
// created for does not change. It is not safe for concurrent use.
type Owners struct {
	reader client.Reader // of the API server itself
	known  map[types.UID]*metav1.PartialObjectMetadata
}

// NewOwners returns Owners that know nothing, and ask a reader of the API server itself.
func NewOwners(reader client.Reader) *Owners {
	return &Owners{reader, map[types.UID]*metav1.PartialObjectMetadata{}}
}

// mostOwners is how many objects are remembered.
const mostOwners = 100_000

// Of is request.Owners. It asks again for an owner that it could not read when such a pod changes.
func (o *Owners) Of(ctx context.Context, namespace string, ref *metav1.OwnerReference) metav1.Object {
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

// OwnerRules returns the rights that Owners need to read all objects that make pods, or make what makes them.
func OwnerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rights.Rule("", "replicationcontrollers", "get"),
		rights.Rule("apps", "replicasets deployments statefulsets daemonsets", "get"),
		rights.Rule("batch", "jobs cronjobs", "get"),
		rights.Rule(kubeflow.Group, "notebooks tfjobs pytorchjobs", "get"),
		rights.Rule("trainer.kubeflow.org", "trainjobs", "get"),
		rights.Rule("jobset.x-k8s.io", "jobsets", "get"),
		rights.Rule("serving.kserve.io", "inferenceservices", "get"),
	}
}
