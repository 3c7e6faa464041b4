package cost

import (
	"fmt"
	"time"
)

// Capacity is how a node was bought.
type Capacity string

// The capacity types.
const (
	OnDemand Capacity = "on-demand"
	Spot     Capacity = "spot"
	Reserved Capacity = "reserved"
)

// Node is what decides the price of a node.
type Node struct {
	Instance string // its instance type; "" is not known
	Region   string
	Capacity Capacity // "" is not known: it is taken for on-demand
	Written  int64    // what it says itself that it costs, in millionths an hour; Says is that it does
	Says     bool
}

// Quote is what a node costs, or why that is not known.
type Quote struct {
	Micros   int64 // an hour
	Currency string
	Source   string // Unpriced if nothing is known
	// Assumed is what was assumed of it, for people, and Why is why there is no price.
	Assumed, Why string
}

// PriceOf returns what a node costs at a time: what the node says itself, else what its instance type is listed for.
// There is no price by default: a node of which none is known is unpriced.
func PriceOf(n *Node) Quote {
	if n.Says {
		return Quote{Micros: n.Written, Currency: "USD", Source: "annotation of the node"}
	}
	if n.Instance == "" {
		return Quote{Why: "the node has no instance type, and no annotation with a price"}
	}
	l := find(n.Instance)
	if l == nil {
		return Quote{Why: fmt.Sprintf("no list has instance type %s", n.Instance)}
	}
	from := lists[l.list]
	q := Quote{Micros: l.onDemand, Currency: "USD", Source: fmt.Sprintf("%s, %s", from.name, from.date.Format(time.DateOnly))}
	switch n.Capacity {
	case Spot:
		if l.spot == 0 {
			return Quote{Why: fmt.Sprintf("no list has a spot price of instance type %s", n.Instance)}
		}
		q.Micros = l.spot
	case Reserved:
		return Quote{Why: "what is paid for reserved capacity is in no list"}
	case OnDemand:
	default:
		q.Assumed = "on-demand"
	}
	if n.Region != "" && n.Region != l.region {
		if q.Assumed != "" {
			q.Assumed += ", "
		}
		q.Assumed += "the price of " + l.region
	}
	return q
}
