package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// GPUUsageDays is the resource of GPUUsageDay.
var GPUUsageDays = GroupVersion.WithResource("gpuusagedays")

// GPUUsageDay is what the pods of its namespace held and were charged in one day of UTC, which is its name, such as 2026-11-27: a copy of
// what the ledger has. In the namespace of the meter it also has GPUs without a holder, and namespaces that are gone.
type GPUUsageDay struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec GPUUsageDaySpec `json:"spec,omitzero"`
}

// GPUUsageDaySpec is what was charged.
type GPUUsageDaySpec struct {
	// GPUHours is the sum of Rows, for people.
	GPUHours string `json:"gpuHours"`
	// Cost is that of Rows, for people; one amount for each currency.
	Cost string `json:"cost,omitempty"`
	// PartsPerGPU is what one GPU is in the parts of Rows.
	PartsPerGPU int64 `json:"partsPerGPU"`
	// Rows are the sums of the day.
	Rows []GPUUsageRow `json:"rows,omitempty"`
	// Sums is the hash of all rows of the day, also those of other namespaces. Only
	// the namespace of the meter has it.
	Sums string `json:"sums,omitempty"`
}

// GPUUsageRow is what was charged to one user of one queue for one product, or for
// GPUs without a holder.
type GPUUsageRow struct {
	// What is held, idle, or stranded.
	What string `json:"what"`
	// Reason is why GPUs were stranded.
	Reason string `json:"reason,omitempty"`
	// Namespace is that of the pods, if it is not that of the object.
	Namespace string `json:"namespace,omitempty"`
	User      string `json:"user,omitempty"`
	Queue     string `json:"queue,omitempty"`
	Product   string `json:"product"`
	// PartMillis are parts of GPUs times milliseconds, and Unpriced those of them
	// of which no price is known.
	PartMillis int64 `json:"partMillis"`
	Unpriced   int64 `json:"unpriced,omitempty"`
	// Micros are millionths of Currency.
	Micros   int64  `json:"micros,omitempty"`
	Currency string `json:"currency,omitempty"`
}

// GPUUsageDayList is a list of GPUUsageDays.
type GPUUsageDayList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []GPUUsageDay `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (d *GPUUsageDay) DeepCopyObject() runtime.Object {
	out := &GPUUsageDay{TypeMeta: d.TypeMeta, Spec: d.Spec}
	d.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Rows = slices.Clone(d.Spec.Rows)
	return out
}

// DeepCopyObject implements runtime.Object.
func (l *GPUUsageDayList) DeepCopyObject() runtime.Object {
	out := &GPUUsageDayList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		if d, ok := l.Items[i].DeepCopyObject().(*GPUUsageDay); ok {
			out.Items = append(out.Items, *d)
		}
	}
	return out
}
