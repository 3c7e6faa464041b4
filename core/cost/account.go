package cost

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"berth.dev/berth/core/usage"
)

// Pod is who a pod holds GPUs for, as it was when it began to.
type Pod struct {
	UID, Namespace, Name string
	Kind, Owner          string // of the object that was applied, such as a Notebook
	User, Queue          string // "" is not known, or none
	Labels               string // as NewLabels returns them
}

// NodeFacts is what is known of a node in a time.
type NodeFacts struct {
	UID, Name, Product string
	Ups                []usage.Up // one after the other, in the order of time
	Holds              []usage.Hold
	Strands            []usage.Strand
	Prices             []Price // in the order of time
}

// Facts is what is known of a cluster in a time.
type Facts struct {
	Nodes []NodeFacts
	Pods  map[string]Pod // by UID
}

// Entry is one charge, with what it is for.
type Entry struct {
	Charge
	Node     *NodeFacts
	Pod      Pod // zero if no pod holds
	Currency string
	Priced   bool
}

// Account returns all charges of a time, in the order of nodes, of time, and of lines. from is taken at the hour in which
// it is. An Entry is only valid until the next.
func Account(f *Facts, from, to time.Time) iter.Seq[*Entry] {
	from = from.Truncate(hour)
	return func(yield func(*Entry) bool) {
		var e Entry
		for i := range f.Nodes {
			n := &f.Nodes[i]
			var spans []usage.Span
			for _, up := range n.Ups {
				if up.From.Before(from) {
					up.From = from
				}
				spans = append(spans, usage.Spans(up, n.Holds, n.Strands, to)...)
			}
			for _, c := range Charges(spans, n.Prices) {
				e = Entry{Charge: c, Node: n, Pod: f.Pods[c.Line.Pod]}
				if c.Line.Pod != "" && e.Pod.UID == "" {
					e.Pod.UID = c.Line.Pod
				}
				if c.Price >= 0 {
					e.Currency, e.Priced = n.Prices[c.Price].Currency, n.Prices[c.Price].Source != Unpriced
				}
				if !yield(&e) {
					return
				}
			}
		}
	}
}

// By is what charges are added up by.
type By string

// The values of By.
const (
	Namespace By = "namespace"
	User      By = "user"
	Queue     By = "queue"
	Workload  By = "workload"
	Product   By = "product"
	NodeName  By = "node"
)

// Bys lists them.
var Bys = []By{Namespace, User, Queue, Workload, Product, NodeName}

// name is what an entry is counted under.
func (by By) name(e *Entry) string {
	switch by {
	case Namespace:
		return e.Pod.Namespace
	case User:
		return e.Pod.User
	case Queue:
		return e.Pod.Queue
	case Workload:
		if e.Pod.Owner == "" {
			return e.Pod.UID
		}
		return e.Pod.Namespace + "/" + e.Pod.Kind + "/" + e.Pod.Owner
	case Product:
		return e.Node.Product
	case NodeName:
		return e.Node.Name
	default:
		return labelOf(e.Pod.Labels, by.label())
	}
}

// Row is what is charged under one name in one currency.
type Row struct {
	Name     string // "" is that who holds has none
	Currency string // "" is that no price is known
	What     What
	Reason   usage.Reason // why GPUs are stranded, if What is Stranded
	// PartMillis are parts of GPUs times milliseconds, and Unpriced those of them of which no price is known.
	PartMillis, Unpriced int64
	Micros               int64
	Spread               int64 // of Micros, what is spread of idle and stranded GPUs
}

// What says whether a pod held the GPUs of a Row.
type What int

// The kinds of Row, in their order.
const (
	Held What = iota
	Idle
	Stranded
)

// String is held, idle, or stranded.
func (w What) String() string {
	return [...]string{Held: "held", Idle: "idle", Stranded: "stranded"}[w]
}

// ParseWhat returns the What that a String is of.
func ParseWhat(text string) (w What, known bool) {
	for _, w := range []What{Held, Idle, Stranded} {
		if w.String() == text {
			return w, true
		}
	}
	return 0, false
}

// Sum adds entries up: what is held by a name each, in the order of what it costs, and what is idle and stranded
// in lines of their own. By products and nodes those have names too.
func Sum(entries iter.Seq[*Entry], by By) []Row {
	a := adder{}
	for e := range entries {
		row := e.row()
		if row.What == Held || by == Product || by == NodeName {
			row.Name = by.name(e)
		}
		a.add(&row)
	}
	return a.rows()
}

// row is an entry as a Row without a name.
func (e *Entry) row() Row {
	r := Row{Currency: e.Currency, PartMillis: e.PartMillis, Micros: e.Micros}
	switch {
	case e.Line.Pod != "":
	case e.Line.Reason != "":
		r.What, r.Reason = Stranded, e.Line.Reason
	default:
		r.What = Idle
	}
	if !e.Priced {
		r.Currency, r.Unpriced = "", e.PartMillis
	}
	return r
}

// AddUp makes one list of several: rows of the same name, kind, reason, and currency become one.
func AddUp(rows ...[]Row) []Row {
	a := adder{}
	for _, list := range rows {
		for i := range list {
			a.add(&list[i])
		}
	}
	return a.rows()
}

// adder adds rows up. Its keys are rows without amounts.
type adder map[Row]*Row

func (a adder) add(r *Row) {
	key := *r
	key.PartMillis, key.Unpriced, key.Micros, key.Spread = 0, 0, 0, 0
	sum := a[key]
	if sum == nil {
		sum = &Row{Name: r.Name, Currency: r.Currency, What: r.What, Reason: r.Reason}
		a[key] = sum
	}
	sum.PartMillis += r.PartMillis
	sum.Unpriced += r.Unpriced
	sum.Micros += r.Micros
	sum.Spread += r.Spread
}

func (a adder) rows() []Row {
	out := make([]Row, 0, len(a))
	for _, r := range a {
		out = append(out, *r)
	}
	sortRows(out)
	return out
}

func sortRows(rows []Row) {
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.What, b.What), cmp.Compare(a.Reason, b.Reason), cmp.Compare(b.Micros, a.Micros), cmp.Compare(b.PartMillis, a.PartMillis), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Currency, b.Currency))
	})
}

// Spread charges idle and stranded GPUs to the holders of the others, in proportion to their own charges, to the
// millionth, for each currency. If no GPUs were held, the lines stay.
func Spread(rows []Row) []Row {
	weights, idle := map[string][]int64{}, map[string]int64{}
	for _, r := range rows {
		if r.What == Held {
			weights[r.Currency] = append(weights[r.Currency], r.Micros)
		} else {
			idle[r.Currency] += r.Micros
		}
	}
	parts := map[string][]int64{}
	for currency, list := range weights {
		parts[currency] = usage.Divide(idle[currency], list)
	}
	var out []Row
	for _, r := range rows {
		mine := parts[r.Currency]
		switch {
		case r.What == Held && len(mine) > 0:
			r.Spread = mine[0]
			r.Micros += mine[0]
			parts[r.Currency] = mine[1:]
		case r.What != Held && spreads(weights[r.Currency]):
			continue
		}
		out = append(out, r)
	}
	sortRows(out)
	return out
}

// spreads reports whether some weight is not 0.
func spreads(weights []int64) bool {
	return slices.ContainsFunc(weights, func(w int64) bool { return w > 0 })
}
