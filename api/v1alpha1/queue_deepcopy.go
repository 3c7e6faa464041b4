package v1alpha1

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyObject implements runtime.Object.
func (q *Queue) DeepCopyObject() runtime.Object { return q.DeepCopy() }

// DeepCopy copies all of it; nil stays nil.
func (q *Queue) DeepCopy() *Queue {
	if q == nil {
		return nil
	}
	out := new(Queue)
	q.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all of it into out.
func (q *Queue) DeepCopyInto(out *Queue) {
	out.TypeMeta = q.TypeMeta
	q.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	q.Spec.DeepCopyInto(&out.Spec)
	q.Status.DeepCopyInto(&out.Status)
}

// DeepCopyInto copies all of it into out.
func (s *QueueSpec) DeepCopyInto(out *QueueSpec) {
	*out = *s
	if n := s.Namespaces; n != nil {
		out.Namespaces = &QueueNamespaces{Names: slices.Clone(n.Names), Selector: n.Selector.DeepCopy(), LabeledPods: slices.Clone(n.LabeledPods)}
	}
	out.Quotas = slices.Clone(s.Quotas)
	for i := range out.Quotas {
		q := &out.Quotas[i]
		q.Nominal = q.Nominal.DeepCopy()
		q.BorrowingLimit, q.LendingLimit = copied(q.BorrowingLimit), copied(q.LendingLimit)
	}
	out.PreferredGPUs = slices.Clone(s.PreferredGPUs)
	out.PerUser, out.PerPod = limits(s.PerUser), limits(s.PerPod)
	out.Weight, out.PriorityCeiling = same(s.Weight), same(s.PriorityCeiling)
	out.Sharing = slices.Clone(s.Sharing)
	out.DefaultPriorityClasses, out.Fairness = same(s.DefaultPriorityClasses), same(s.Fairness)
	if b := s.Budget; b != nil {
		out.Budget = &QueueBudget{Amount: b.Amount, Currency: b.Currency, WarnAt: slices.Clone(b.WarnAt), HoldNewWork: b.HoldNewWork}
	}
}

// DeepCopyInto copies all of it into out.
func (s *QueueStatus) DeepCopyInto(out *QueueStatus) {
	*out = *s
	out.Resources = slices.Clone(s.Resources)
	for i := range out.Resources {
		r := &out.Resources[i]
		for _, q := range []*resource.Quantity{&r.Nominal, &r.Used, &r.Borrowed, &r.Lent} {
			*q = q.DeepCopy()
		}
	}
	out.Usage = slices.Clone(s.Usage)
	out.Evictions = slices.Clone(s.Evictions)
	out.Conditions = slices.Clone(s.Conditions)
	out.Budget = same(s.Budget)
}

// same returns a copy of what holds no pointers.
func same[T int32 | float64 | QueuePriorityClasses | QueueFairness | PriceBookOnPremises | QueueBudgetStatus](from *T) *T {
	if from == nil {
		return nil
	}
	to := *from
	return &to
}

func copied(q *resource.Quantity) *resource.Quantity {
	if q == nil {
		return nil
	}
	to := q.DeepCopy()
	return &to
}

func limits(from []QueueLimit) []QueueLimit {
	out := slices.Clone(from)
	for i := range out {
		out[i].Max = out[i].Max.DeepCopy()
	}
	return out
}

// DeepCopyObject implements runtime.Object.
func (l *QueueList) DeepCopyObject() runtime.Object {
	out := &QueueList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	if l.Items != nil {
		out.Items = make([]Queue, len(l.Items))
		for i := range l.Items {
			l.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}
