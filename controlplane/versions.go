package controlplane

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"berth.dev/berth/api/kubeflow"
)

// oneCache has the API server hold Notebooks in memory once. For custom resources
// it keeps a watch cache of every version that is served, each with all objects and
// its own history: with the three versions of Notebook that is three times the
// memory, and each change is read three times. Requests in the older versions,
// which are few, are answered from the store instead.
type oneCache struct{ generic.RESTOptionsGetter }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (c oneCache) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := c.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil || resource != kubeflow.Resource.GroupResource() {
		return o, err
	}
	cached := o.Decorator
	o.Decorator = func(
		config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
		attrs storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		decorate := cached
		if newFunc().GetObjectKind().GroupVersionKind().Version != kubeflow.GroupVersion.Version {
			decorate = generic.UndecoratedStorage
		}
		return decorate(config, prefix, key, newFunc, newListFunc, attrs, trigger, indexers)
	}
	return o, nil
}
