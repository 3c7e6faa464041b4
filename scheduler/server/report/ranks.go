package report

import (
	"sync/atomic"

	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// ranks are the PriorityClasses of the cluster.
type ranks struct {
	classes schedulinglisters.PriorityClassLister
	events  atomic.Int64
	read    int64 // events that were read; guarded by Sentences.mu
}

func newRanks(from informers.SharedInformerFactory) *ranks {
	classes := from.Scheduling().V1().PriorityClasses()
	r := &ranks{classes: classes.Lister()}
	count := func(any) { r.events.Add(1) }
	_, err := classes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: count, UpdateFunc: func(any, any) { r.events.Add(1) }, DeleteFunc: count})
	if err != nil {
		klog.ErrorS(err, "PriorityClasses are left out of the conditions of pods")
	}
	return r
}

// changed returns the classes if they may be others than at the last call.
func (r *ranks) changed() ([]schedulingv1.PriorityClass, bool) {
	if r.events.Load() == r.read {
		return nil, false
	}
	r.read = r.events.Load()
	list, err := r.classes.List(labels.Everything())
	out := make([]schedulingv1.PriorityClass, 0, len(list))
	for _, c := range list {
		out = append(out, *c)
	}
	return out, err == nil
}
