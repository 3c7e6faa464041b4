package view

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/cost"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/price"
)

// SetPrices fills in what an hour of every node with GPUs costs at a time, and the total. nodes are those that the view was
// read from, and rules those of the cluster's PriceBooks: the price is the one that the ledger charges.
func (v *View) SetPrices(nodes []*v1.Node, rules cost.Rules, now time.Time) {
	read := make(map[string]*v1.Node, len(nodes))
	for _, n := range nodes {
		read[n.Name] = n
	}
	v.Total.Prices = nil
	for i := range v.Nodes {
		n := &v.Nodes[i]
		n.Prices = pricesOf(n, read[n.Name], rules, now)
		v.Total.Prices = cost.AddAmounts(v.Total.Prices, n.Prices...)
	}
}

// pricesOf is what an hour of a node costs; nil is not known.
func pricesOf(n *devices.Node, read *v1.Node, rules cost.Rules, now time.Time) []cost.Amount {
	if read == nil || n.Physical == 0 {
		return nil
	}
	q := cost.PriceOf(price.Node(read, n.Product, n.Physical), rules, now)
	if q.Source == cost.Unpriced {
		return nil
	}
	return []cost.Amount{{Currency: q.Currency, Micros: q.Micros}}
}
