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

// Dollar is the currency of list prices and of annotations of nodes.
const Dollar = "USD"

// MostMicros is the highest price of a node, in millionths an hour: ten million. Sums of years are not too large then.
const MostMicros = 10_000_000 * million

// Node is what decides the price of a node.
type Node struct {
	Instance string // its instance type; "" is not known
	Region   string
	Pool     string
	Product  string            // of its GPUs, as their label has it, without suffixes
	GPUs     int               // physical ones
	Labels   map[string]string // read only
	Capacity Capacity          // "" is not known: it is taken for on-demand
	Written  int64             // what it says itself that it costs, in millionths an hour; Says is that it does
	Says     bool
	// Unread is what the node says in the place of a price, and is not one; "" is that it says nothing of the kind.
	Unread string
}

// Quote is what a node costs, or why that is not known.
type Quote struct {
	Micros   int64 // an hour
	Currency string
	Source   string    // Unpriced if nothing is known
	Since    time.Time // from when on its source says so; zero is that it does not say
	// Assumed is what was assumed of it and how it is computed, for people, and Why is why there is no price.
	Assumed, Why string
}

// Candidate is a source of prices, and what it says of a node.
type Candidate struct {
	Name string
	Quote
	Counts bool // it is the node's price; else Why says why it is not
}

// PriceOf returns what a node costs at a time: what the node says itself, else what the first rule says that fits it,
// else what its instance type is listed for. There is no price by default: a node of which none is known is unpriced.
func PriceOf(n *Node, rules Rules, now time.Time) Quote {
	if n.Says {
		return written(n)
	}
	for i := range rules {
		if fits, _ := rules[i].fits(n, now); fits {
			return ignored(n, rules[i].quote(n))
		}
	}
	return ignored(n, listPrice(n))
}

// Candidates returns all sources of prices in the order in which they are asked. The first that has one counts, and is
// what PriceOf returns.
func Candidates(n *Node, rules Rules, now time.Time) []Candidate {
	var out []Candidate
	first := ""
	add := func(name string, q Quote) {
		c := Candidate{Name: name, Quote: q}
		switch {
		case q.Source == Unpriced:
		case first != "":
			c.Why = first + " goes first"
		default:
			c.Counts, first = true, name
		}
		out = append(out, c)
	}
	add(annotation, written(n))
	for i := range rules {
		r := &rules[i]
		q := Quote{}
		if fits, miss := r.fits(n, now); fits {
			q = r.quote(n)
		} else {
			q.Why = miss.String()
		}
		add(r.Source(), q)
	}
	add("list prices", listPrice(n))
	return out
}

// annotation is the name of the price that a node says itself.
const annotation = "annotation of the node"

// written is what a node says itself.
func written(n *Node) Quote {
	switch {
	case n.Says:
		return Quote{Micros: n.Written, Currency: Dollar, Source: annotation}
	case n.Unread != "":
		return Quote{Why: fmt.Sprintf("%q is not a price", n.Unread)}
	}
	return Quote{Why: "the node has none"}
}

// ignored adds to a quote what the node says in vain.
func ignored(n *Node, q Quote) Quote {
	if n.Unread == "" {
		return q
	}
	text := fmt.Sprintf("its annotation %q is not a price", n.Unread)
	if q.Source == Unpriced {
		q.Why = joined(text, q.Why)
	} else {
		q.Assumed = joined(text, q.Assumed)
	}
	return q
}

// joined is two texts with a comma between them if there are two.
func joined(a, b string) string {
	if a != "" && b != "" {
		return a + ", " + b
	}
	return a + b
}

// listPrice is what the instance type of a node is listed for.
func listPrice(n *Node) Quote {
	if n.Instance == "" {
		return Quote{Why: "the node has no instance type, and no annotation with a price"}
	}
	l := find(n.Instance)
	if l == nil {
		return Quote{Why: fmt.Sprintf("no list has instance type %s", n.Instance)}
	}
	q := Quote{Micros: l.onDemand, Currency: Dollar, Source: lists[l.list].source()}
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
		q.Assumed = string(OnDemand)
	}
	if n.Region != "" && n.Region != l.region {
		q.Assumed = joined(q.Assumed, "the price of "+l.region)
	}
	return q
}
