package nodes

import (
	"berth.dev/berth/cli/term"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/view"
)

// nodeRow is a node in `berth nodes -o json`. GPUs are physical ones.
type nodeRow struct {
	Node         string       `json:"node"`
	Product      string       `json:"product"`
	GPUs         int          `json:"gpus"`
	Held         float64      `json:"held"`
	Free         float64      `json:"free"`
	Unhealthy    int          `json:"unhealthy"`    // GPUs, held or not
	Busy         *float64     `json:"busy"`         // ratio 0-1; null is unknown
	PricePerHour *float64     `json:"pricePerHour"` // null is unknown
	Currency     string       `json:"currency"`     // of the price, such as USD; "" is unknown
	HeldBy       []holdingRow `json:"heldBy"`
	Unavailable  float64      `json:"unavailable"` // not held and not free: unhealthy, or the node takes no pods
	Devices      int          `json:"devices"`     // whole GPUs, MIG devices and shares on offer
	DevicesHeld  int          `json:"devicesHeld"`
	ClaimOnly    int          `json:"claimOnly,omitempty"` // devices that only a DRA driver offers, which Berth does not use yet
	Remark       string       `json:"remark,omitempty"`    // why nothing is free
	Taints       []string     `json:"taints"`              // key=value:effect
}

// holdingRow is one owner's part of a node.
type holdingRow struct {
	Kind      string  `json:"kind"`
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	GPUs      float64 `json:"gpus"`
	Pods      int     `json:"pods"`    // on this node
	Waiting   int     `json:"waiting"` // pods of the owner that have no node
}

// totals is the sum over all nodes.
type totals struct {
	GPUs         int      `json:"gpus"`
	Held         float64  `json:"held"`
	Free         float64  `json:"free"`
	Unhealthy    int      `json:"unhealthy"`
	Busy         *float64 `json:"busy"`
	PricePerHour *float64 `json:"pricePerHour"` // null is unknown, or in several currencies
	Currency     string   `json:"currency"`
	Unavailable  float64  `json:"unavailable"`
	ClaimOnly    int      `json:"claimOnly,omitempty"` // devices that only a DRA driver offers
	WaitingPods  int      `json:"waitingPods"`         // that ask for GPUs and have no node
}

func nodeRows(nodes []devices.Node) []nodeRow {
	var out []nodeRow
	for _, n := range nodes {
		row := nodeRow{
			Node: n.Name, Product: n.Product, GPUs: n.Physical,
			Held: term.FromMilli(n.Held), Free: term.FromMilli(n.Free), Unavailable: term.FromMilli(n.Broken + n.Closed), Unhealthy: n.Unhealthy,
			Busy: busyOf(n.Count), PricePerHour: priceOf(n.Count), Currency: currencyOf(n.Count),
			HeldBy: []holdingRow{}, Devices: n.Devices, DevicesHeld: n.DevicesHeld, ClaimOnly: n.ClaimOnly, Remark: n.Remark, Taints: append([]string{}, n.Taints...),
		}
		if len(n.GPUs) == 0 {
			row.Product = ""
		}
		for _, h := range n.HeldBy {
			row.HeldBy = append(row.HeldBy, holdingRow{h.Kind, h.Namespace, h.Name, term.FromMilli(h.MilliGPU), h.Pods, h.Waiting})
		}
		out = append(out, row)
	}
	return out
}

func totalRow(v view.View) totals {
	t, claimOnly := v.Total, 0
	for i := range v.Nodes {
		claimOnly += v.Nodes[i].ClaimOnly
	}
	return totals{
		GPUs: t.Physical, Held: term.FromMilli(t.Held), Free: term.FromMilli(t.Free), Unhealthy: t.Unhealthy, Busy: busyOf(t),
		PricePerHour: priceOf(t), Currency: currencyOf(t), Unavailable: term.FromMilli(t.Broken + t.Closed), ClaimOnly: claimOnly, WaitingPods: WaitingPods(v),
	}
}

// WaitingPods is how many pods that ask for GPUs have no node.
func WaitingPods(v view.View) int {
	n := 0
	for _, w := range v.Waiting {
		n += w.Pods
	}
	return n
}

func busyOf(c devices.Count) *float64 {
	if !c.BusyKnown {
		return nil
	}
	return &c.Busy
}

// priceOf is what an hour costs; nil is not known, or in several currencies.
func priceOf(c devices.Count) *float64 {
	if len(c.Prices) != 1 {
		return nil
	}
	return new(float64(c.Prices[0].Micros) / 1e6)
}

// currencyOf is the currency of priceOf; "" is none.
func currencyOf(c devices.Count) string {
	if len(c.Prices) != 1 {
		return ""
	}
	return c.Prices[0].Currency
}
