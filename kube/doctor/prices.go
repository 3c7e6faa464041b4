package doctor

import (
	"fmt"

	"berth.dev/berth/core/cost"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/price"
)

// prices looks for nodes with GPUs of which no price is known: what they cost is in no sum.
func (e *examined) prices() []finding.Finding {
	if !e.PriceBooks {
		return nil
	}
	var unpriced []string
	why, all := "", 0
	for i := range e.view.Nodes {
		n := &e.view.Nodes[i]
		if n.Physical == 0 {
			continue
		}
		all++
		if q := cost.PriceOf(price.Node(e.byName[n.Name], n.Product, n.Physical), e.Prices, e.Now); q.Source == cost.Unpriced {
			if unpriced = append(unpriced, n.Name); why == "" {
				why = q.Why
			}
		}
	}
	switch {
	case all == 0:
		return nil
	case len(unpriced) == 0:
		return []finding.Finding{ok("prices", "%s with GPUs, each with a price", count(all, "node"))}
	}
	return []finding.Finding{warn("prices", fmt.Sprintf("no price is known of %s with GPUs (%s): %s; their GPU-hours are counted, and cost nothing", count(len(unpriced), "node"), few(unpriced), why),
		"set one with `berth price set "+unpriced[0]+" PRICE`, or write a PriceBook")}
}
