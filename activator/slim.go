package activator

import (
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

// kept returns what the activator reads of the metadata of all objects: which one it is, and which labels it has.
func kept(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, DeletionTimestamp: m.DeletionTimestamp, Labels: m.Labels,
	}
}

// slimService keeps of a Service which pods it selects at which ports, and what its annotations say to the activator.
func slimService(o any) (any, error) {
	s, ok := o.(*v1.Service)
	if !ok {
		return o, nil
	}
	notes := s.Annotations
	s.ObjectMeta = kept(&s.ObjectMeta)
	for _, key := range []string{api.AnnotationSplit, api.AnnotationConcurrency} {
		if text, ok := notes[key]; ok {
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, key, text)
		}
	}
	s.Spec, s.Status = v1.ServiceSpec{Selector: s.Spec.Selector, Ports: s.Spec.Ports}, v1.ServiceStatus{}
	return s, nil
}

// slimSlice keeps of an EndpointSlice where ready pods answer. Those of activators are written again as a whole, so of them only
// the owners are dropped, which Set.slice sets again, and the managed fields, which the API server keeps in an update without any.
func slimSlice(o any) (any, error) {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok {
		return o, nil
	}
	if ours(s) {
		s.ManagedFields, s.OwnerReferences = nil, nil
		return s, nil
	}
	s.ObjectMeta = kept(&s.ObjectMeta)
	if len(s.Endpoints) == 0 {
		s.Ports = nil
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		slim := discoveryv1.Endpoint{Addresses: e.Addresses, Conditions: discoveryv1.EndpointConditions{Ready: e.Conditions.Ready}}
		if e.TargetRef != nil {
			slim.TargetRef = &v1.ObjectReference{Kind: e.TargetRef.Kind, Name: e.TargetRef.Name}
		}
		s.Endpoints[i] = slim
	}
	return s, nil
}

// slimPod keeps of a pod what answering needs.
func slimPod(o any) (any, error) {
	p, ok := o.(*v1.Pod)
	if !ok {
		return o, nil
	}
	p.ObjectMeta = kept(&p.ObjectMeta)
	var named []v1.Container
	for i := range p.Spec.Containers {
		if ports := p.Spec.Containers[i].Ports; len(ports) > 0 {
			named = append(named, v1.Container{Ports: ports})
		}
	}
	p.Spec = v1.PodSpec{Containers: named}
	status := v1.PodStatus{PodIP: p.Status.PodIP}
	if isReady(p) {
		status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	}
	p.Status = status
	return p, nil
}
