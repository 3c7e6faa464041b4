package v1alpha1

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// KindPriceBook is the kind of a PriceBook.
const KindPriceBook = "PriceBook"

// PriceBooks is the resource of PriceBook. It has no namespace.
var PriceBooks = GroupVersion.WithResource("pricebooks")

// PriceBook says what nodes cost.
type PriceBook struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec PriceBookSpec `json:"spec,omitzero"`
}

// PriceBookSpec is what an administrator says of prices.
type PriceBookSpec struct {
	// Currency is that of all amounts, such as EUR: a label, nothing is converted.
	// "" is USD.
	Currency string `json:"currency,omitempty"`
	// Prices are those of nodes. If several fit a node, the one counts that says
	// most of it.
	Prices []PriceBookPrice `json:"prices,omitempty"`
}

// PriceBookPrice is what nodes of one sort cost. Exactly one of PerHour, PerGPUHour,
// and OnPremises is set.
type PriceBookPrice struct {
	// Name is unique in the book.
	Name string `json:"name"`
	// Match is what a node must be; empty is any node.
	Match PriceBookMatch `json:"match,omitzero"`
	// From is when the price begins to count; nil is always.
	From *metav1.Time `json:"from,omitempty"`
	// PerHour is the price of a whole node.
	PerHour *float64 `json:"perHour,omitempty"`
	// PerGPUHour is the price of each of its GPUs.
	PerGPUHour *float64 `json:"perGPUHour,omitempty"`
	// OnPremises is what a node costs that was bought.
	OnPremises *PriceBookOnPremises `json:"onPremises,omitempty"`
}

// PriceBookMatch is what a node must be. All that is set must fit.
type PriceBookMatch struct {
	// Pool is what one of the labels for pools has.
	Pool string `json:"pool,omitempty"`
	// InstanceType is what the label node.kubernetes.io/instance-type has.
	InstanceType string `json:"instanceType,omitempty"`
	// Region is what the label topology.kubernetes.io/region has.
	Region string `json:"region,omitempty"`
	// CapacityType is on-demand, spot, or reserved.
	CapacityType string `json:"capacityType,omitempty"`
	// Product is that of the GPUs, as the label nvidia.com/gpu.product has it or as
	// nvidia-smi prints it.
	Product string `json:"product,omitempty"`
	// Labels are those of the node.
	Labels map[string]string `json:"labels,omitempty"`
}

// PriceBookOnPremises is what a node costs that was bought: Capital divided by the
// hours of Years, and its power.
type PriceBookOnPremises struct {
	// Capital is what the node cost.
	Capital float64 `json:"capital"`
	// Years is how long it is used.
	Years float64 `json:"years"`
	// Watts is what it draws on average.
	Watts float64 `json:"watts,omitempty"`
	// PUE is the power of the building for each watt of the node; 0 is 1.
	PUE float64 `json:"pue,omitempty"`
	// PricePerKWh is the price of power.
	PricePerKWh float64 `json:"pricePerKWh,omitempty"`
}

// PriceBookList is a list of PriceBooks.
type PriceBookList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []PriceBook `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (b *PriceBook) DeepCopyObject() runtime.Object { return b.DeepCopy() }

// DeepCopy copies all of it; nil stays nil.
func (b *PriceBook) DeepCopy() *PriceBook {
	if b == nil {
		return nil
	}
	out := new(PriceBook)
	b.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all of it into out.
func (b *PriceBook) DeepCopyInto(out *PriceBook) {
	out.TypeMeta = b.TypeMeta
	b.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec = b.Spec
	out.Spec.Prices = slices.Clone(b.Spec.Prices)
	for i := range out.Spec.Prices {
		p := &out.Spec.Prices[i]
		p.Match.Labels = maps.Clone(p.Match.Labels)
		p.From = p.From.DeepCopy()
		p.PerHour, p.PerGPUHour, p.OnPremises = same(p.PerHour), same(p.PerGPUHour), same(p.OnPremises)
	}
}

// DeepCopyObject implements runtime.Object.
func (l *PriceBookList) DeepCopyObject() runtime.Object {
	out := &PriceBookList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	if l.Items != nil {
		out.Items = make([]PriceBook, len(l.Items))
		for i := range l.Items {
			l.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}
