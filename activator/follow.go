package activator

import (
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"berth.dev/berth/kube/serving"
)

// follow queues the Services that a change of an object concerns.
func (f *follower) follow(informer cache.SharedIndexInformer, of func(any) []types.NamespacedName) error {
	add := func(o any) {
		if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		for _, name := range of(o) {
			f.queue.Add(name)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, DeleteFunc: add, UpdateFunc: func(_, now any) { add(now) }})
	return err
}

// all returns the names of all Services.
func (f *follower) all() (names []types.NamespacedName) {
	list, _ := f.services.List(labels.Everything()) // from memory
	for _, s := range list {
		names = append(names, types.NamespacedName{Namespace: s.Namespace, Name: s.Name})
	}
	return names
}

// ofPod returns the Services that a pod may be behind and for which the activator stays.
func (f *follower) ofPod(o any) (names []types.NamespacedName) {
	p, ok := o.(*v1.Pod)
	if !ok {
		return nil
	}
	if serving.IsCanary(p.Labels) {
		return f.allOf(p.Namespace, p.Labels[LabelService])
	}
	list, _ := f.services.Services(p.Namespace).List(labels.SelectorFromSet(labels.Set{LabelService: p.Labels[LabelService]})) // from memory
	for _, s := range list {
		if serving.ThroughActivator(s) {
			names = append(names, types.NamespacedName{Namespace: s.Namespace, Name: s.Name})
		}
	}
	return names
}

// ofService returns a Service, and with that of a predictor, which says how requests are divided, all of its InferenceService.
func (f *follower) ofService(o any) []types.NamespacedName {
	s, ok := o.(*v1.Service)
	if !ok {
		return nil
	}
	name := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
	if of := s.Labels[LabelService]; serving.IsCanary(s.Labels) || s.Name == serving.ChildName(of) {
		return append(f.allOf(s.Namespace, of), name)
	}
	return []types.NamespacedName{name}
}

// ofSlice returns the Service of an EndpointSlice, or those by which requests for a canary come.
func (f *follower) ofSlice(o any) []types.NamespacedName {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil
	}
	name := types.NamespacedName{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}
	if of := s.Labels[LabelService]; name.Name == serving.CanaryName(of) {
		return f.allOf(s.Namespace, of)
	}
	return []types.NamespacedName{name}
}

// allOf returns the Services of an InferenceService.
func (f *follower) allOf(namespace, service string) (names []types.NamespacedName) {
	list, _ := f.services.Services(namespace).List(labels.SelectorFromSet(labels.Set{LabelService: service})) // from memory
	for _, s := range list {
		if !serving.IsCanary(s.Labels) {
			names = append(names, types.NamespacedName{Namespace: s.Namespace, Name: s.Name})
		}
	}
	return names
}
