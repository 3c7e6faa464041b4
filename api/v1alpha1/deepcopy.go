package v1alpha1

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyObject implements runtime.Object.
func (p *NotebookProfile) DeepCopyObject() runtime.Object { return p.DeepCopy() }

// DeepCopy copies all of it; nil stays nil.
func (p *NotebookProfile) DeepCopy() *NotebookProfile {
	if p == nil {
		return nil
	}
	out := new(NotebookProfile)
	p.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all of it into out.
func (p *NotebookProfile) DeepCopyInto(out *NotebookProfile) {
	out.TypeMeta = p.TypeMeta
	p.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	p.Spec.DeepCopyInto(&out.Spec)
}

// DeepCopyInto copies all of it into out.
func (s *NotebookProfileSpec) DeepCopyInto(out *NotebookProfileSpec) {
	*out = *s
	out.AllowedGroups = slices.Clone(s.AllowedGroups)
	out.Base, out.Override, out.Extra = slices.Clone(s.Base), slices.Clone(s.Override), slices.Clone(s.Extra)
	out.Options = slices.Clone(s.Options)
	for i := range out.Options {
		out.Options[i] = out.Options[i].copied()
	}
}

// copied returns a copy that shares nothing.
func (o ProfileOption) copied() ProfileOption {
	o.Choices, o.Extra = slices.Clone(o.Choices), slices.Clone(o.Extra)
	for i := range o.Choices {
		c := &o.Choices[i]
		c.AllowedGroups = slices.Clone(c.AllowedGroups)
		c.Override, c.Extra = slices.Clone(c.Override), slices.Clone(c.Extra)
	}
	if o.UnlistedChoice != nil {
		u := *o.UnlistedChoice
		u.AllowedGroups = slices.Clone(u.AllowedGroups)
		u.Override, u.Extra = slices.Clone(u.Override), slices.Clone(u.Extra)
		o.UnlistedChoice = &u
	}
	return o
}

// DeepCopyObject implements runtime.Object.
func (l *NotebookProfileList) DeepCopyObject() runtime.Object {
	out := &NotebookProfileList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	if l.Items != nil {
		out.Items = make([]NotebookProfile, len(l.Items))
		for i := range l.Items {
			l.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}
