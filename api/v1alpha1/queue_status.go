package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Types of the conditions of a Queue.
const (
	// QueueValid is whether all of the spec can be followed. Its message lists what
	// cannot.
	QueueValid = "Valid"
	// QueueActive is whether the queue admits workloads.
	QueueActive = "Active"
)

// QueueBudgetStatus is how the budget of a queue stands.
type QueueBudgetStatus struct {
	// Month is that of UTC, such as "2026-11".
	Month string `json:"month"`
	// Spent and Forecast are amounts for people, such as "612.40 USD": now, and at the end of the month.
	Spent    string `json:"spent"`
	Forecast string `json:"forecast"`
	// Percent is how much of the budget is spent.
	Percent int32 `json:"percent"`
	// Reached is the highest of spec.budget.warnAt that is spent; 0 is none.
	Reached int32 `json:"reached,omitempty"`
}

// QueueStatus is what Berth says of a queue. Amounts are of the queue and those below it.
type QueueStatus struct {
	// ObservedGeneration is the generation of the spec that the status is of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Nominal, Used, Borrowed and Lent are Resources in a few words, for tables:
	// "7" of all GPUs, or "4 H100-80GB, 2 mig-1g.5gb".
	Nominal  string `json:"nominal,omitempty"`
	Used     string `json:"used,omitempty"`
	Borrowed string `json:"borrowed,omitempty"`
	Lent     string `json:"lent,omitempty"`
	// Waiting is how many workloads wait for quota.
	Waiting int32 `json:"waiting"`
	// Resources has one entry for each kind of GPUs that the queue or one above it states.
	Resources []QueueResource `json:"resources,omitempty"`
	// Usage is what the queue and its users have used, each second counting the less the
	// longer ago it is.
	Usage []QueueUsage `json:"usage,omitempty"`
	// Evictions are workloads of the queue that were evicted to return quota in the last 7 days, by
	// owner: at most 256, those that were evicted last.
	Evictions []QueueEvictions `json:"evictions,omitempty"`
	// Budget is how spec.budget stands, as the ledger counts; nil is that there is no budget, or no ledger.
	Budget *QueueBudgetStatus `json:"budget,omitempty"`
	// Conditions has QueueValid and QueueActive.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// QueueResource is what a queue has and holds of one kind of GPUs.
type QueueResource struct {
	// GPUs is as in QueueQuota.
	GPUs     string            `json:"gpus"`
	Nominal  resource.Quantity `json:"nominal"`
	Used     resource.Quantity `json:"used"`
	Borrowed resource.Quantity `json:"borrowed"`
	Lent     resource.Quantity `json:"lent"`
}

// QueueUsage is past use, decayed by the half-life of the queue.
type QueueUsage struct {
	// User is whose use it is; "" is of the queue together.
	User string `json:"user"`
	// GPUSeconds is the use until At.
	GPUSeconds int64       `json:"gpuSeconds"`
	At         metav1.Time `json:"at"`
}

// QueueEvictions is how often one workload was evicted to return quota.
type QueueEvictions struct {
	// Owner is the UID of the object that makes the pods, such as a Job.
	Owner string `json:"owner"`
	// By is the queue that took quota back the last time.
	By string `json:"by"`
	// Pods is how many of its pods were evicted, one after the other.
	Pods int32 `json:"pods"`
	// Of is the most pods that it had when some were evicted.
	Of int32 `json:"of"`
	// Last is when the last was.
	Last metav1.Time `json:"last"`
}

// QueueList is a list of Queues.
type QueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Queue `json:"items"`
}
