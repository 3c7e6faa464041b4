package report

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"

	"berth.dev/berth/kube/devices"
)

// offers are what DRA drivers offer to claims, from the informers that kube-scheduler has
// for its own plugin.
type offers struct {
	slices  resourcelisters.ResourceSliceLister
	classes resourcelisters.DeviceClassLister
	events  atomic.Int64
	read    int64 // events that were read; guarded by Sentences.mu
}

// newOffers returns nil where kube-scheduler does not follow such offers.
func newOffers(from informers.SharedInformerFactory) *offers {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicResourceAllocation) {
		return nil
	}
	api := from.Resource().V1()
	o := &offers{slices: api.ResourceSlices().Lister(), classes: api.DeviceClasses().Lister()}
	count := func(any) { o.events.Add(1) }
	each := cache.ResourceEventHandlerFuncs{AddFunc: count, UpdateFunc: func(any, any) { o.events.Add(1) }, DeleteFunc: count}
	for _, informer := range []cache.SharedIndexInformer{api.ResourceSlices().Informer(), api.DeviceClasses().Informer()} {
		if _, err := informer.AddEventHandler(each); err != nil {
			klog.ErrorS(err, "Offers of DRA drivers are left out of the conditions of pods")
			return nil
		}
	}
	return o
}

// changed returns what is offered if that may be something else than at the last call.
func (o *offers) changed() (devices.DRA, bool) {
	if o == nil || o.events.Load() == o.read {
		return devices.DRA{}, false
	}
	o.read = o.events.Load()
	list, err := o.slices.List(labels.Everything())
	classes, classErr := o.classes.List(labels.Everything())
	return devices.ReadDRA(list, classes), err == nil && classErr == nil
}
