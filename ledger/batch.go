package ledger

import (
	"slices"

	"berth.dev/berth/core/audit"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/usage"
)

// Node is what a node is, apart from its name the same as long as it has its UID.
type Node struct {
	UID, Name, Product     string
	Instance, Region, Zone string
	Capacity               cost.Capacity
}

// Hold is which parts of which node a pod holds.
type Hold struct {
	Node  string // its UID
	Parts int64
}

// Strand is a node and a reason for which parts of it are stranded.
type Strand struct {
	Node   string // its UID
	Reason usage.Reason
}

// The intervals of the ledger.
type (
	// Holds is when a pod, by its UID, held what.
	Holds = usage.Interval[string, Hold]
	// Ups is when a node, by its UID, was there, with the parts of all its GPUs.
	Ups = usage.Interval[string, int64]
	// Strands is when how many parts were stranded, by what StrandKey returns.
	Strands = usage.Interval[string, int64]
	// Prices is when a node, by its UID, had a price.
	Prices = usage.Interval[string, Price]
	// Lows is when a pod, by its UID, used little; the value is usage.Low.Shared.
	Lows = usage.Interval[string, bool]
)

// Price is what a node costs. Remark is what was assumed of it, or why no price is known.
type Price struct {
	Micros                   int64
	Currency, Source, Remark string
}

// Batch is what is written in one transaction. Each row replaces one that has the same key, and the same beginning
// where it is an interval; but what is known of a Pod stays as it was written first.
type Batch struct {
	Nodes   []Node
	Pods    []cost.Pod
	Holds   []Holds
	Ups     []Ups
	Strands []Strands
	Prices  []Prices
	Lows    []Lows
	Uses    []usage.Use
	Askers  []cost.Pod // who asks for GPUs: as Pods, by when the pod was created
	Records []audit.Record
}

// Empty reports whether there is nothing to write.
func (b *Batch) Empty() bool {
	return len(b.Nodes)+len(b.Pods)+len(b.Holds)+len(b.Ups)+len(b.Strands)+len(b.Prices)+len(b.Lows)+len(b.Uses)+len(b.Askers)+len(b.Records) == 0
}

// With returns a batch of what two have, the second after the first.
func (b *Batch) With(next *Batch) Batch {
	return Batch{
		Nodes: slices.Concat(b.Nodes, next.Nodes), Pods: slices.Concat(b.Pods, next.Pods), Holds: slices.Concat(b.Holds, next.Holds),
		Ups: slices.Concat(b.Ups, next.Ups), Strands: slices.Concat(b.Strands, next.Strands), Prices: slices.Concat(b.Prices, next.Prices),
		Lows: slices.Concat(b.Lows, next.Lows), Uses: slices.Concat(b.Uses, next.Uses),
		Askers: slices.Concat(b.Askers, next.Askers), Records: slices.Concat(b.Records, next.Records),
	}
}
