package kubeflow

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyObject implements runtime.Object.
func (n *Notebook) DeepCopyObject() runtime.Object { return n.DeepCopy() }

// DeepCopy copies all of it; nil stays nil.
func (n *Notebook) DeepCopy() *Notebook {
	if n == nil {
		return nil
	}
	out := new(Notebook)
	n.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all of it into out.
func (n *Notebook) DeepCopyInto(out *Notebook) {
	out.TypeMeta = n.TypeMeta
	n.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	n.Spec.Template.Spec.DeepCopyInto(&out.Spec.Template.Spec)
	n.Status.DeepCopyInto(&out.Status)
}

// DeepCopyInto copies all of it into out.
func (s *NotebookStatus) DeepCopyInto(out *NotebookStatus) {
	out.Conditions, out.ReadyReplicas, out.GPUs = nil, s.ReadyReplicas, s.GPUs
	if s.Conditions != nil {
		out.Conditions = make([]NotebookCondition, len(s.Conditions))
		for i, c := range s.Conditions {
			c.LastProbeTime, c.LastTransitionTime = timeCopy(c.LastProbeTime), timeCopy(c.LastTransitionTime)
			out.Conditions[i] = c
		}
	}
	s.ContainerState.DeepCopyInto(&out.ContainerState)
}

// timeCopy copies a time; nil stays nil.
func timeCopy(t *metav1.Time) *metav1.Time {
	if t == nil {
		return nil
	}
	return t.DeepCopy()
}

// DeepCopyObject implements runtime.Object.
func (l *NotebookList) DeepCopyObject() runtime.Object {
	out := &NotebookList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	if l.Items != nil {
		out.Items = make([]Notebook, len(l.Items))
		for i := range l.Items {
			l.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}
