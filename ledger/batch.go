package ledger

import (
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

// The intervals of the ledger. Keys of Holds are UIDs of pods, of Ups and Prices UIDs of nodes, of Strands what
// StrandKey returns.
type (
	Holds   = usage.Interval[string, Hold]
	Ups     = usage.Interval[string, int64] // parts of all GPUs
	Strands = usage.Interval[string, int64] // parts
	Prices  = usage.Interval[string, Price]
)

// Price is what a node costs.
type Price struct {
	Micros                    int64
	Currency, Source, Assumed string
}

// Batch is what is written in one transaction. Each row replaces one that has the same key, and the same beginning
// where it is an interval.
type Batch struct {
	Nodes   []Node
	Pods    []cost.Pod
	Holds   []Holds
	Ups     []Ups
	Strands []Strands
	Prices  []Prices
}

// Empty reports whether there is nothing to write.
func (b *Batch) Empty() bool {
	return len(b.Nodes)+len(b.Pods)+len(b.Holds)+len(b.Ups)+len(b.Strands)+len(b.Prices) == 0
}
