package cost

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Rule is a price that an administrator states for nodes: an entry of a PriceBook.
type Rule struct {
	Book, Name string
	Match      Match
	From       time.Time // from when on it counts; zero is always
	Micros     int64     // an hour; at least 0
	PerGPU     bool      // Micros are for each GPU of a node, not for the whole node
	Currency   string
	Remark     string // how Micros are computed; "" if they are stated
}

// Match is what a node must be for a Rule. An empty field does not matter.
type Match struct {
	Pool, Instance, Region, Product string // Product as the label nvidia.com/gpu.product has it, without suffixes
	Capacity                        Capacity
	Labels                          map[string]string
}

// Rules are in the order in which they count: the first that fits a node is its price.
type Rules []Rule

// NewRules puts rules in their order: the one that says most of a node first, then the one that counts from later,
// then by the names of book and rule. Each label counts as one thing that is said.
func NewRules(list []Rule) Rules {
	out := slices.Clone(list)
	slices.SortStableFunc(out, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(b.Match.says(), a.Match.says()), b.From.Compare(a.From), cmp.Compare(a.Book, b.Book), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// Next returns when the next of the rules begins to count after a time; zero is that all do.
func (r Rules) Next(now time.Time) (next time.Time) {
	for i := range r {
		if from := r[i].From; from.After(now) && (next.IsZero() || from.Before(next)) {
			next = from
		}
	}
	return next
}

// Source is the name of a rule for people.
func (r *Rule) Source() string { return fmt.Sprintf("PriceBook %s, %s", r.Book, r.Name) }

// says is how many things a Match asks for.
func (m *Match) says() int {
	n := len(m.Labels)
	for _, text := range []string{m.Pool, m.Instance, m.Region, m.Product, string(m.Capacity)} {
		if text != "" {
			n++
		}
	}
	return n
}

// miss is one thing in which a node is not what a Rule asks for.
type miss struct{ what, want, has string }

// String is the miss for people.
func (m miss) String() string {
	switch {
	case m.what == "from":
		return "counts from " + m.want
	case m.has == "":
		return fmt.Sprintf("the node has no %s, and %s is asked for", m.what, m.want)
	}
	return fmt.Sprintf("the node's %s is %s, and %s is asked for", m.what, m.has, m.want)
}

// fits returns whether a node is what a rule asks for at a time, and the first thing in which it is not. A node whose
// capacity type is not known is taken for on-demand.
func (r *Rule) fits(n *Node, now time.Time) (bool, miss) {
	m := &r.Match
	for _, f := range [...]miss{
		{"pool", m.Pool, n.Pool},
		{"instance type", m.Instance, n.Instance},
		{"region", m.Region, n.Region},
		{"product", m.Product, n.Product},
		{"capacity type", string(m.Capacity), string(cmp.Or(n.Capacity, OnDemand))},
	} {
		if f.want != "" && f.want != f.has {
			return false, f
		}
	}
	if len(m.Labels) > 0 {
		for _, key := range slices.Sorted(maps.Keys(m.Labels)) {
			if has, ok := n.Labels[key]; !ok || has != m.Labels[key] {
				return false, miss{"label " + key, cmp.Or(m.Labels[key], `""`), has}
			}
		}
	}
	if r.From.After(now) {
		return false, miss{what: "from", want: r.From.UTC().Format(time.RFC3339)}
	}
	return true, miss{}
}

// quote is what a rule says of a node that fits it.
func (r *Rule) quote(n *Node) Quote {
	q := Quote{Micros: r.Micros, Currency: r.Currency, Source: r.Source(), Since: r.From, Assumed: r.Remark}
	if r.PerGPU {
		q.Micros = min(MostMicros, q.Micros*int64(n.GPUs))
	}
	if r.Match.Capacity == OnDemand && n.Capacity == "" {
		q.Assumed = joined(string(OnDemand), q.Assumed)
	}
	return q
}
