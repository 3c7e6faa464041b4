package trainer

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyObject implements runtime.Object.
func (t *TrainJob) DeepCopyObject() runtime.Object {
	out := new(TrainJob)
	t.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all of it into out.
func (t *TrainJob) DeepCopyInto(out *TrainJob) {
	out.TypeMeta = t.TypeMeta
	t.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	t.Spec.deepCopyInto(&out.Spec)
	t.Status.deepCopyInto(&out.Status)
}

func (s *TrainJobSpec) deepCopyInto(out *TrainJobSpec) {
	*out = *s
	out.RuntimeRef.APIGroup, out.RuntimeRef.Kind = copyOf(s.RuntimeRef.APIGroup), copyOf(s.RuntimeRef.Kind)
	out.Initializer = s.Initializer.DeepCopy()
	out.RuntimePatches, out.PodTemplateOverrides, out.PodSpecOverrides = copyRaw(s.RuntimePatches), copyRaw(s.PodTemplateOverrides), copyRaw(s.PodSpecOverrides)
	out.Suspend, out.ActiveDeadlineSeconds, out.ManagedBy = copyOf(s.Suspend), copyOf(s.ActiveDeadlineSeconds), copyOf(s.ManagedBy)
	if t := s.Trainer; t != nil {
		c := *t
		c.Image, c.Command, c.Args, c.Env = copyOf(t.Image), slices.Clone(t.Command), slices.Clone(t.Args), copyRaw(t.Env)
		c.NumNodes, c.ResourcesPerNode, c.NumProcPerNode = copyOf(t.NumNodes), t.ResourcesPerNode.DeepCopy(), copyOf(t.NumProcPerNode)
		out.Trainer = &c
	}
}

func (s *TrainJobStatus) deepCopyInto(out *TrainJobStatus) {
	out.Conditions = slices.Clone(s.Conditions)
	out.JobsStatus = slices.Clone(s.JobsStatus)
	out.TrainerStatus = s.TrainerStatus.DeepCopy()
}

// DeepCopyObject implements runtime.Object.
func (l *TrainJobList) DeepCopyObject() runtime.Object {
	out := &TrainJobList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	if l.Items != nil {
		out.Items = make([]TrainJob, len(l.Items))
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

func copyRaw(list []runtime.RawExtension) []runtime.RawExtension {
	out := slices.Clone(list)
	for i := range out {
		out[i] = *list[i].DeepCopy()
	}
	return out
}
