package meter

import (
	"cmp"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/usage"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/price"
	"berth.dev/berth/ledger"
)

// node notes how a node is now.
func (t *tally) node(n *v1.Node) {
	was := t.nodes[n.Name]
	there := was != nil && was.UID == n.UID
	if was != nil && !there {
		t.down(string(was.UID), t.now(), usage.End{Source: usage.Seen})
	}
	if there {
		t.setClock(was, n)
	} else {
		delete(t.off, n.Name)
	}
	t.nodes[n.Name] = n
	t.dirty[n.Name] = true
	if !t.offers.Set(n) && there {
		return
	}
	for _, p := range t.pods[n.Name] {
		t.hold(p)
	}
}

// nodeGone notes that a node is deleted.
func (t *tally) nodeGone(n *v1.Node) {
	if now := t.nodes[n.Name]; now == nil || now.UID != n.UID {
		return
	}
	delete(t.nodes, n.Name)
	delete(t.off, n.Name)
	t.offers.Remove(n.Name)
	t.down(string(n.UID), t.now(), usage.End{Source: usage.Seen})
}

// down ends all that is known of a node. Holds of its pods only count while it is up, so they need no end.
func (t *tally) down(uid string, at time.Time, end usage.End) {
	t.batch.Ups = append(t.batch.Ups, t.ups.End(uid, at, end)...)
	t.batch.Prices = append(t.batch.Prices, t.price.End(uid, at, end)...)
	for _, reason := range usage.Reasons() {
		t.batch.Strands = append(t.batch.Strands, t.lost.End(ledger.StrandKey(ledger.Strand{Node: uid, Reason: reason}), at, end)...)
	}
}

// settle looks at the nodes that have changed, or whose pods or prices have.
func (t *tally) settle() {
	if !t.next.IsZero() && !t.now().Before(t.next) {
		t.lookAgain()
	}
	for _, name := range slices.Sorted(maps.Keys(t.dirty)) {
		if n := t.nodes[name]; n != nil {
			t.look(n)
		}
	}
	clear(t.dirty)
}

// look notes what a node has, what it costs, and how much of it no pod can use.
func (t *tally) look(n *v1.Node) {
	uid, now := string(n.UID), t.now()
	counted := devices.CountNode(n, slices.Collect(maps.Values(t.pods[n.Name])), nil)
	parts := int64(counted.Physical) * quota.Whole
	from := now
	if _, up := t.ups.Has(uid); !up {
		if parts == 0 {
			return
		}
		if _, known := t.known[uid]; !known {
			from = t.begins(n.CreationTimestamp.Time)
		}
	}
	priced := price.Node(n, counted.Product, counted.Physical)
	row := ledger.Node{
		UID: uid, Name: n.Name, Product: counted.Product, Instance: priced.Instance, Region: priced.Region, Zone: n.Labels[v1.LabelTopologyZone], Capacity: priced.Capacity,
	}
	if t.known[uid] != row {
		t.known[uid] = row
		t.batch.Nodes = append(t.batch.Nodes, row)
	}
	if parts == 0 {
		t.down(uid, now, usage.End{Source: usage.Seen})
		return
	}
	t.batch.Ups = append(t.batch.Ups, t.ups.Set(uid, parts, from)...)
	t.priced(uid, priced, from)
	stranded := t.strandedBy(n, counted.Physical, stranded(n, &counted))
	for _, reason := range usage.Reasons() {
		key := ledger.StrandKey(ledger.Strand{Node: uid, Reason: reason})
		if parts := stranded[reason]; parts > 0 {
			t.batch.Strands = append(t.batch.Strands, t.lost.Set(key, parts, from)...)
		} else {
			t.batch.Strands = append(t.batch.Strands, t.lost.End(key, now, usage.End{Source: usage.Seen})...)
		}
	}
}

// priced notes what a node costs. A price of a PriceBook begins exactly when the book says, if the book said so before.
func (t *tally) priced(uid string, n *cost.Node, from time.Time) {
	q := cost.PriceOf(n, t.rules, t.now())
	if q.Since.After(t.ruled) && q.Since.Before(from) {
		from = q.Since
	}
	t.batch.Prices = append(t.batch.Prices, t.price.Set(uid, ledger.Price{Micros: q.Micros, Currency: q.Currency, Source: q.Source, Remark: cmp.Or(q.Assumed, q.Why)}, from)...)
}

// ruledBy notes that PriceBooks are other ones. Those of the start are taken for those that were there before.
func (t *tally) ruledBy(rules cost.Rules) {
	if t.rules = rules; t.current {
		t.ruled = t.now()
	}
	t.lookAgain()
}

// lookAgain has all nodes looked at again.
func (t *tally) lookAgain() {
	t.next = t.rules.Next(t.now())
	for name := range t.nodes {
		t.dirty[name] = true
	}
}

// stranded is the parts of a node that no pod can get, by why.
func stranded(n *v1.Node, d *devices.Node) map[usage.Reason]int64 {
	out := map[usage.Reason]int64{}
	if n.Spec.Unschedulable {
		out[usage.Cordoned] = int64(d.Physical) * quota.Whole
	}
	for i := range d.GPUs {
		g := &d.GPUs[i]
		switch {
		case !g.Healthy:
			out[usage.Unhealthy] += max(0, quota.Whole-g.Held*quota.Whole/1000)
		case len(g.MIG) > 0:
			rest := int64(quota.Whole)
			for k := range g.MIG {
				rest -= quota.PartOfMIG(d.Product, g.MIG[k].Profile)
			}
			out[usage.Remainder] += max(0, rest)
		}
	}
	return out
}
