package quota

import (
	"time"

	"berth.dev/berth/core/sharing"
)

// Spec is a queue as its object describes it.
type Spec struct {
	Name   string
	Parent string  // "" is the root of a tree
	Quotas []Quota // each resource once
	// Weight is the queue's part of what is free over nominal quotas, against its
	// siblings', times 1000. 0 is 1000.
	Weight  int64
	PerUser []Limit // of each user, over the queue and those below it
	PerPod  []Limit
	// FairUsers has the users of the queue take turns by what they hold; else the line is
	// by age alone.
	FairUsers bool
	Ceiling   *int32 // the highest priority that counts in its line; nil is no limit
	Stop      bool   // nothing more is admitted
	Spent     bool   // nothing more is admitted, as its budget is spent
	// Sharing is in which ways pods of the queue, and of those below it, may use GPUs; 0 is all.
	Sharing  sharing.Ways
	HalfLife time.Duration // of past use; 0 is that it does not count
	// Prefers are products and node labels, of which a workload that may use several gets those
	// that come first, and others only after these. nil is the order of the nearest queue
	// above that has one.
	Prefers []Resource
	// MinRunTime is how long a workload runs before it is evicted to give quota back.
	MinRunTime time.Duration
	// Created orders queues that claim the same; the older wins.
	Created time.Time
}

// Quota is what a queue has of one resource, in parts.
type Quota struct {
	Resource Resource
	Nominal  int64 // its own
	// Borrowing is the most that it takes of others' unused quota, and Lending the most
	// of its own unused quota that others take; Unlimited is all that there is.
	Borrowing, Lending int64
}

// Limit is the most of one resource, in parts.
type Limit struct {
	Resource Resource
	Most     int64
}

// Problem is something wrong with a queue. The queue counts as far as it can be
// understood: one that is Fatal admits nothing until it is put right.
type Problem struct {
	Queue string
	Field string // such as "spec.parent"
	Text  string
	Fatal bool
}
