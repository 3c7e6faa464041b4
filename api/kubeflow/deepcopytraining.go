package kubeflow

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyObject implements runtime.Object.
func (t *TFJob) DeepCopyObject() runtime.Object {
	out := new(TFJob)
	t.DeepCopyInto(&out.Training)
	return out
}

// DeepCopyObject implements runtime.Object.
func (t *PyTorchJob) DeepCopyObject() runtime.Object {
	out := new(PyTorchJob)
	t.DeepCopyInto(&out.Training)
	return out
}

// DeepCopyInto copies all of it into out.
func (t *Training) DeepCopyInto(out *Training) {
	out.TypeMeta = t.TypeMeta
	t.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	t.Spec.deepCopyInto(&out.Spec)
	t.Status.deepCopyInto(&out.Status)
}

func (s *TrainingSpec) deepCopyInto(out *TrainingSpec) {
	*out = *s
	s.RunPolicy.deepCopyInto(&out.RunPolicy)
	out.TFReplicaSpecs, out.PyTorchReplicaSpecs = copyReplicas(s.TFReplicaSpecs), copyReplicas(s.PyTorchReplicaSpecs)
	out.SuccessPolicy, out.NprocPerNode = copyOf(s.SuccessPolicy), copyOf(s.NprocPerNode)
	if e := s.ElasticPolicy; e != nil {
		c := *e
		c.MinReplicas, c.MaxReplicas, c.RDZVPort = copyOf(e.MinReplicas), copyOf(e.MaxReplicas), copyOf(e.RDZVPort)
		c.RDZVBackend, c.RDZVHost, c.RDZVID = copyOf(e.RDZVBackend), copyOf(e.RDZVHost), copyOf(e.RDZVID)
		c.Standalone, c.NProcPerNode, c.MaxRestarts = copyOf(e.Standalone), copyOf(e.NProcPerNode), copyOf(e.MaxRestarts)
		c.RDZVConf, c.Metrics = slices.Clone(e.RDZVConf), slices.Clone(e.Metrics)
		for i := range c.Metrics {
			c.Metrics[i] = *e.Metrics[i].DeepCopy()
		}
		out.ElasticPolicy = &c
	}
}

func (r *RunPolicy) deepCopyInto(out *RunPolicy) {
	*out = *r
	out.CleanPodPolicy, out.TTLSecondsAfterFinished, out.ActiveDeadlineSeconds = copyOf(r.CleanPodPolicy), copyOf(r.TTLSecondsAfterFinished), copyOf(r.ActiveDeadlineSeconds)
	out.BackoffLimit, out.Suspend, out.ManagedBy = copyOf(r.BackoffLimit), copyOf(r.Suspend), copyOf(r.ManagedBy)
	if p := r.SchedulingPolicy; p != nil {
		c := *p
		c.MinAvailable, c.ScheduleTimeoutSeconds = copyOf(p.MinAvailable), copyOf(p.ScheduleTimeoutSeconds)
		out.SchedulingPolicy = &c
	}
}

func (s *TrainingStatus) deepCopyInto(out *TrainingStatus) {
	*out = TrainingStatus{
		Conditions: slices.Clone(s.Conditions), ReplicaStatuses: maps.Clone(s.ReplicaStatuses),
		StartTime: timeCopy(s.StartTime), CompletionTime: timeCopy(s.CompletionTime), LastReconcileTime: timeCopy(s.LastReconcileTime),
	}
	for i := range out.Conditions {
		s.Conditions[i].LastUpdateTime.DeepCopyInto(&out.Conditions[i].LastUpdateTime)
		s.Conditions[i].LastTransitionTime.DeepCopyInto(&out.Conditions[i].LastTransitionTime)
	}
}

func copyReplicas(from map[string]ReplicaSpec) map[string]ReplicaSpec {
	if from == nil {
		return nil
	}
	out := make(map[string]ReplicaSpec, len(from))
	for t, r := range from {
		r.Replicas = copyOf(r.Replicas)
		r.Template = *r.Template.DeepCopy()
		out[t] = r
	}
	return out
}

// copyOf copies what a pointer leads to; nil stays nil.
func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// DeepCopyObject implements runtime.Object.
func (l *TFJobList) DeepCopyObject() runtime.Object {
	out := &TFJobList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	if l.Items != nil {
		out.Items = make([]TFJob, len(l.Items))
		for i := range l.Items {
			l.Items[i].DeepCopyInto(&out.Items[i].Training)
		}
	}
	return out
}

// DeepCopyObject implements runtime.Object.
func (l *PyTorchJobList) DeepCopyObject() runtime.Object {
	out := &PyTorchJobList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	if l.Items != nil {
		out.Items = make([]PyTorchJob, len(l.Items))
		for i := range l.Items {
			l.Items[i].DeepCopyInto(&out.Items[i].Training)
		}
	}
	return out
}
