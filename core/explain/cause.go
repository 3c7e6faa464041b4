package explain

import (
	"cmp"
	"slices"
)

// Cause is one thing that keeps a workload off nodes, over all of them.
type Cause struct {
	Gap   Gap      // of the node that comes nearest to passing
	Nodes []string // that it keeps the workload off, by name
	Frees int      // nodes that would have room now without it
	Opens int      // nodes that would do without it, now or when others leave
	total bool     // no node that counts is without it
}

// Code is the stable name of the cause.
func (c *Cause) Code() Code { return codeOf(&c.Gap, c.total) }

// Waits reports whether the cause is gone when others leave.
func (c *Cause) Waits() bool { return c.Gap.Remedy == Waits }

// Causes ranks what keeps a workload off nodes: the binding cause first, then the
// others. It is empty where a node has room, or there is no node.
//
// Nodes that offer nothing of what is asked for count only where no other does. If
// some node would do as soon as others leave or it is well again, the binding cause is
// the one without which most nodes have room. If none ever would, it is the one that
// no wait removes and without which most would do: one that all nodes have before one
// that only some have, and what the workload says of nodes last.
func Causes(nodes []NodeGaps) []Cause {
	count := nodes
	if slices.ContainsFunc(nodes, func(n NodeGaps) bool { return n.unoffered() }) {
		if offering := slices.DeleteFunc(slices.Clone(nodes), func(n NodeGaps) bool { return n.unoffered() }); len(offering) > 0 {
			count = offering
		}
	}
	easiest := Never
	for i := range count {
		if len(count[i].Gaps) == 0 {
			return nil
		}
		easiest = min(easiest, count[i].Worst())
	}
	var out []Cause
	for i := range count {
		if count[i].Worst() == Never && easiest < Never {
			continue // the workload has other nodes
		}
		for j := range count[i].Gaps {
			out = addCause(out, &count[i].Gaps[j], count[i].Node)
		}
	}
	for i := range out {
		out[i].weigh(count)
	}
	slices.SortStableFunc(out, func(a, b Cause) int {
		if easiest < Never {
			return cmp.Or(cmp.Compare(b.Frees, a.Frees), cmp.Compare(len(b.Nodes), len(a.Nodes)), cmp.Compare(a.Gap.Remedy, b.Gap.Remedy), cmp.Compare(a.Gap.Check, b.Gap.Check))
		}
		return cmp.Or(cmp.Compare(b.Gap.Remedy, a.Gap.Remedy), yesFirst(a.total, b.total), yesFirst(!a.chosen(), !b.chosen()),
			cmp.Compare(b.Opens, a.Opens), cmp.Compare(b.Frees, a.Frees), cmp.Compare(a.Gap.Check, b.Gap.Check))
	})
	return out
}

// chosen reports whether the cause is a wish of the workload that some node meets.
func (c *Cause) chosen() bool {
	return !c.total && (c.Gap.Check == CheckSelector || c.Gap.Check == CheckAffinity)
}

func yesFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// same reports whether two gaps are one cause.
func same(a, b *Gap) bool {
	return a.Check == b.Check && a.Remedy == b.Remedy && (a.Subject == b.Subject)
}

func addCause(out []Cause, g *Gap, node string) []Cause {
	i := 0
	for i < len(out) && !same(&out[i].Gap, g) {
		i++
	}
	if i == len(out) {
		return append(out, Cause{Gap: *g, Nodes: []string{node}})
	}
	c := &out[i]
	c.Nodes = append(c.Nodes, node)
	if nearer := cmp.Or(cmp.Compare(g.Free, c.Gap.Free), cmp.Compare(g.Total, c.Gap.Total)); nearer > 0 || g.Remedy == Never && g.Total > c.Gap.Total {
		c.Gap = *g
	}
	return out
}

// weigh counts what would be without the cause.
func (c *Cause) weigh(nodes []NodeGaps) {
	c.total = true
	for i := range nodes {
		has, others, worst := false, 0, Waits
		for j := range nodes[i].Gaps {
			if g := &nodes[i].Gaps[j]; same(g, &c.Gap) {
				has = true
			} else {
				others++
				worst = max(worst, g.Remedy)
			}
		}
		c.total = c.total && has
		if !has {
			continue
		}
		if others == 0 {
			c.Frees++
		}
		if worst < Never {
			c.Opens++
		}
	}
}

// Rejection is what keeps a workload off some nodes, equal ones together.
type Rejection struct {
	Why   string   `json:"why"`          // of each of these nodes, such as "cordoned"
	Do    string   `json:"do,omitempty"` // what would help; "" is that others must leave
	Nodes []string `json:"nodes"`        // by name

	worst Remedy
	first Check
}

// Never reports whether waiting does not help with these nodes.
func (r *Rejection) Never() bool { return r.worst == Never }

// Rejections lists all that each node without room lacks, equal ones
// together: first those that are nearest to having room, of these the one of most
// nodes. The rest is left out for a node that offers nothing of what is asked for.
func Rejections(nodes []NodeGaps) []Rejection {
	var out []Rejection
	for i := range nodes {
		n := &nodes[i]
		if len(n.Gaps) == 0 {
			continue
		}
		r := Rejection{worst: n.Worst(), first: n.Gaps[0].Check}
		for j := range n.Gaps {
			g := &n.Gaps[j]
			if r.Why != "" {
				r.Why += "; "
			}
			r.Why += g.String()
			if r.Do == "" {
				r.Do = g.Do
			}
			if g.Check == CheckOffered {
				break
			}
		}
		k := slices.IndexFunc(out, func(b Rejection) bool { return b.Why == r.Why && b.Do == r.Do })
		if k < 0 {
			out = append(out, r)
			k = len(out) - 1
		}
		out[k].Nodes = append(out[k].Nodes, n.Node)
	}
	for i := range out {
		out[i].Do = withNodes(out[i].Do, out[i].Nodes)
	}
	slices.SortStableFunc(out, func(a, b Rejection) int {
		return cmp.Or(cmp.Compare(a.worst, b.worst), cmp.Compare(b.first, a.first), cmp.Compare(len(b.Nodes), len(a.Nodes)))
	})
	return out
}
