package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindQueue is the kind of a Queue.
const KindQueue = "Queue"

// Queues is the resource of Queue. It has no namespace.
var Queues = GroupVersion.WithResource("queues")

// Queue says how many GPUs the pods of some namespaces may hold together, and what they
// may borrow of queues beside it.
type Queue struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   QueueSpec   `json:"spec,omitzero"`
	Status QueueStatus `json:"status,omitzero"`
}

// QueueSpec is what an administrator says of a queue.
type QueueSpec struct {
	// Parent is the queue that this one belongs to; "" is none. A queue borrows the
	// unused quota of queues below the same root.
	Parent string `json:"parent,omitempty"`
	// Default is whether the queue takes namespaces that no queue takes.
	Default bool `json:"default,omitempty"`
	// Namespaces are those whose pods enter the queue.
	Namespaces *QueueNamespaces `json:"namespaces,omitempty"`
	// Quotas are amounts of GPUs, each kind once.
	Quotas []QueueQuota `json:"quotas,omitempty"`
	// PreferredGPUs are products and node labels, written as in QueueQuota: a workload that may
	// use several of them gets the first for which there is quota and room, and others
	// only after these. Empty is the list of the nearest queue above that has one.
	PreferredGPUs []string `json:"preferredGPUs,omitempty"`
	// Weight is the part of unused quota of others that the queue gets, against the
	// weights of its siblings. Nil is 1.
	Weight *int32 `json:"weight,omitempty"`
	// PerUser limits what each user holds in the queue and those below it.
	PerUser []QueueLimit `json:"perUser,omitempty"`
	// PerPod limits what each pod requests.
	PerPod []QueueLimit `json:"perPod,omitempty"`
	// PriorityCeiling is the highest priority that counts in the line; unlimited if nil.
	PriorityCeiling *int32 `json:"priorityCeiling,omitempty"`
	// Sharing lists in which ways pods of the queue, and of those below it, may use GPUs; empty is all
	// that the queue above allows.
	Sharing []QueueSharing `json:"sharing,omitempty"`
	// DefaultPriorityClasses name the PriorityClasses of pods whose authors name none. A kind of work
	// that is left out has the class of the nearest queue above that names one.
	DefaultPriorityClasses *QueuePriorityClasses `json:"defaultPriorityClasses,omitempty"`
	// Order is the order of the line among workloads of equal priority; "" is OrderFIFO.
	Order QueueOrder `json:"order,omitempty"`
	// Stop is whether the queue and those below it admit workloads; "" is StopNone.
	Stop QueueStop `json:"stop,omitempty"`
	// MinRunTime is how long a workload runs before it can be evicted to return quota, such
	// as "10m" or "1d"; "" is 10m.
	MinRunTime string `json:"minRunTime,omitempty"`
	// MaxRunTime is how long a workload runs at most, such as "8h"; unlimited if "".
	MaxRunTime string `json:"maxRunTime,omitempty"`
	// Fairness says how past use counts.
	Fairness *QueueFairness `json:"fairness,omitempty"`
	// IdleNotebooks is whether idle notebooks stop for workloads that wait; "" is IdleKeep.
	IdleNotebooks QueueIdle `json:"idleNotebooks,omitempty"`
	// Budget is what pods of the queue and of those below it may cost in a month. Nil is none.
	Budget *QueueBudget `json:"budget,omitempty"`
}

// QueueBudget is what pods may cost in a calendar month of UTC.
type QueueBudget struct {
	// Amount is in Currency; more than 0.
	Amount float64 `json:"amount"`
	// Currency is that of the prices that count; "" is USD.
	Currency string `json:"currency,omitempty"`
	// WarnAt are percentages of Amount; an event reports when each is spent. Empty is 50, 80, and 100.
	WarnAt []int32 `json:"warnAt,omitempty"`
	// HoldNewWork is whether the queue and those below it admit nothing from when Amount is spent until the next month.
	HoldNewWork bool `json:"holdNewWork,omitempty"`
}

// QueueNamespaces says whose pods enter a queue. A namespace that carries the label
// berth.dev/queue belongs to the queue of that name, whatever others say.
type QueueNamespaces struct {
	// Names are names of namespaces.
	Names []string `json:"names,omitempty"`
	// Selector takes namespaces by their labels.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// LabeledPods are namespaces of other queues or of none, whose pods enter this queue
	// if they carry the label berth.dev/queue with its name; "*" is all namespaces.
	LabeledPods []string `json:"labeledPods,omitempty"`
}

// Values of GPUs that are not the name of a product.
const (
	// GPUsAll is physical GPUs of all products together.
	GPUsAll = "All"
	// GPUsEquivalents is GPUs of all products, each weighted by what its product is worth.
	GPUsEquivalents = "Equivalents"
	// GPUsMIGPrefix begins the name of a MIG profile, as "mig-1g.5gb".
	GPUsMIGPrefix = "mig-"
)

// QueueQuota is what a queue has of one kind of GPUs.
type QueueQuota struct {
	// GPUs is GPUsAll, GPUsEquivalents, a product as its label nvidia.com/gpu.product has
	// it, a MIG profile after GPUsMIGPrefix, or a node label with its value, as
	// "workload=training": the GPUs of the nodes that have it.
	GPUs string `json:"gpus"`
	// Nominal is its own, in GPUs; of a MIG profile, in MIG devices.
	Nominal resource.Quantity `json:"nominal"`
	// BorrowingLimit is the most that it takes of others' unused quota; unlimited if nil.
	BorrowingLimit *resource.Quantity `json:"borrowingLimit,omitempty"`
	// LendingLimit is the most of its unused quota that others take; unlimited if nil.
	LendingLimit *resource.Quantity `json:"lendingLimit,omitempty"`
}

// QueueLimit is the most of one kind of GPUs.
type QueueLimit struct {
	// GPUs is as in QueueQuota.
	GPUs string `json:"gpus"`
	// Max is in GPUs; of a MIG profile, in MIG devices.
	Max resource.Quantity `json:"max"`
}

// QueueSharing is a way to use GPUs.
type QueueSharing string

// The ways to use GPUs.
const (
	SharingWhole       QueueSharing = "Whole"       // whole GPUs
	SharingMIG         QueueSharing = "MIG"         // MIG devices
	SharingTimeSlicing QueueSharing = "TimeSlicing" // shares by time
	SharingMPS         QueueSharing = "MPS"         // shares by MPS
	SharingMemory      QueueSharing = "Memory"      // shares by memory, or by another size
)

// QueuePriorityClasses are names of PriorityClasses by what a pod is for; "" is left out.
type QueuePriorityClasses struct {
	Notebook string `json:"notebook,omitempty"`
	Training string `json:"training,omitempty"`
	Serving  string `json:"serving,omitempty"`
}

// QueueOrder is an order of the line.
type QueueOrder string

// The orders of a line.
const (
	OrderFIFO QueueOrder = "FIFO" // the oldest first
	OrderFair QueueOrder = "Fair" // the user who holds least first, then the oldest
)

// QueueStop is whether a queue admits workloads, and keeps those that run.
type QueueStop string

// Whether a queue admits workloads.
const (
	StopNone         QueueStop = "None"
	StopHold         QueueStop = "Hold"         // admits none; those that run go on
	StopHoldAndDrain QueueStop = "HoldAndDrain" // admits none, and evicts those that run
)

// QueueIdle says what happens to idle notebooks.
type QueueIdle string

// What happens to idle notebooks when others wait.
const (
	IdleKeep    QueueIdle = "Keep"
	IdleGiveWay QueueIdle = "GiveWay" // they are warned, stopped, and started again in their turn
)

// QueueFairness says how past use counts.
type QueueFairness struct {
	// HalfLife is after how long past use counts half, such as "168h" or "7d"; "0" is
	// that it does not count, and "" is 168h.
	HalfLife string `json:"halfLife,omitempty"`
}
