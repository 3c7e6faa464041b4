package kserve

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyObject implements runtime.Object.
func (s *InferenceService) DeepCopyObject() runtime.Object {
	out := new(InferenceService)
	s.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all of it into out.
func (s *InferenceService) DeepCopyInto(out *InferenceService) {
	out.TypeMeta = s.TypeMeta
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	s.Spec.DeepCopyInto(&out.Spec)
	s.Status.DeepCopyInto(&out.Status)
}

// DeepCopyInto copies all of it into out.
func (s *Status) DeepCopyInto(out *Status) {
	*out = *s
	out.Conditions, out.Components, out.Address = slices.Clone(s.Conditions), maps.Clone(s.Components), copyOf(s.Address)
	for k, c := range out.Components {
		c.Address, c.Traffic = copyOf(c.Address), slices.Clone(c.Traffic)
		out.Components[k] = c
	}
	if m := copyOf(s.ModelStatus); m != nil {
		m.States, m.Copies, m.LastFailureInfo = copyOf(m.States), copyOf(m.Copies), copyOf(m.LastFailureInfo)
		if f := m.LastFailureInfo; f != nil {
			f.Time = f.Time.DeepCopy()
		}
		out.ModelStatus = m
	}
}

// DeepCopyObject implements runtime.Object.
func (l *InferenceServiceList) DeepCopyObject() runtime.Object {
	out := &InferenceServiceList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	if l.Items != nil {
		out.Items = make([]InferenceService, len(l.Items))
		for i := range l.Items {
			l.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}

// DeepCopyObject implements runtime.Object.
func (r *ServingRuntime) DeepCopyObject() runtime.Object {
	out := new(ServingRuntime)
	r.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all of it into out.
func (r *ServingRuntime) DeepCopyInto(out *ServingRuntime) {
	out.TypeMeta = r.TypeMeta
	r.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	r.Spec.DeepCopyInto(&out.Spec)
}

// DeepCopyObject implements runtime.Object.
func (l *ServingRuntimeList) DeepCopyObject() runtime.Object {
	out := &ServingRuntimeList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	if l.Items != nil {
		out.Items = make([]ServingRuntime, len(l.Items))
		for i := range l.Items {
			l.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}

// DeepCopyObject implements runtime.Object.
func (r *ClusterServingRuntime) DeepCopyObject() runtime.Object {
	out := new(ClusterServingRuntime)
	r.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all of it into out.
func (r *ClusterServingRuntime) DeepCopyInto(out *ClusterServingRuntime) {
	out.TypeMeta = r.TypeMeta
	r.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	r.Spec.DeepCopyInto(&out.Spec)
}

// DeepCopyObject implements runtime.Object.
func (l *ClusterServingRuntimeList) DeepCopyObject() runtime.Object {
	out := &ClusterServingRuntimeList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	if l.Items != nil {
		out.Items = make([]ClusterServingRuntime, len(l.Items))
		for i := range l.Items {
			l.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}

// copyOf returns a pointer to a copy of what p leads to.
func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
