package controlplane

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// marked returns options whose storage says that it was made with a cache.
type marked struct{ cached *bool }

func (m marked) GetRESTOptions(schema.GroupResource, runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{Decorator: func(
		*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object,
		storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		*m.cached = true
		return nil, nil, nil
	}}, nil
}

func TestOneVersionOfNotebooksIsCached(t *testing.T) {
	for _, tt := range []struct {
		group, resource, version string
		want                     bool
	}{
		{"kubeflow.org", "notebooks", "v1", true},
		{"kubeflow.org", "notebooks", "v1beta1", false},
		{"kubeflow.org", "notebooks", "v1alpha1", false},
		{"kubeflow.org", "tfjobs", "v1beta1", true}, // not ours to judge
		{"example.org", "notebooks", "v1beta1", true},
	} {
		cached := false
		o, err := oneCache{marked{&cached}}.GetRESTOptions(schema.GroupResource{Group: tt.group, Resource: tt.resource}, nil)
		if err != nil {
			t.Fatal(err)
		}
		object := func() runtime.Object {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(schema.GroupVersionKind{Group: tt.group, Version: tt.version, Kind: "Any"})
			return u
		}
		config := &storagebackend.ConfigForResource{Config: storagebackend.Config{Type: "none"}} // a store that cannot be made
		_, _, err = o.Decorator(config, "", nil, object, object, nil, nil, nil)
		if cached != tt.want || (err == nil) != tt.want {
			t.Errorf("%s %s of %s: cached %v (%v), want %v", tt.resource, tt.version, tt.group, cached, err, tt.want)
		}
	}
}
