package nodes

import (
	"cmp"
	"io"
	"strconv"

	"berth.dev/berth/cli/term"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/view"
)

// byRow is the nodes with one value of a label in `berth nodes --by LABEL -o json`.
type byRow struct {
	Label string `json:"label"`
	Value string `json:"value"` // "" is also of nodes without the label
	Nodes int    `json:"nodes"`

	GPUs         int      `json:"gpus"`
	Held         float64  `json:"held"`
	Free         float64  `json:"free"`
	Unhealthy    int      `json:"unhealthy"`
	Busy         *float64 `json:"busy"`         // ratio 0-1; null is unknown
	PricePerHour *float64 `json:"pricePerHour"` // null is unknown, or in several currencies
	Currency     string   `json:"currency"`
	Unavailable  float64  `json:"unavailable"`
}

// printBy writes a line for each value of the label.
func (n *nodesCommand) printBy(w io.Writer, shown []devices.Node, busy func(uuid string) (float64, bool)) error {
	pools := view.By(shown, n.by)
	for i := range pools {
		pools[i].SetBusy(busy)
	}
	if n.output.Object() {
		var rows []byRow
		for _, p := range pools {
			t := totalRow(p.View)
			rows = append(rows, byRow{n.by, p.Value, len(p.Nodes), t.GPUs, t.Held, t.Free, t.Unhealthy, t.Busy, t.PricePerHour, t.Currency, t.Unavailable})
		}
		return term.Write(w, &n.output, term.NewList("NodePoolList", rows))
	}
	t := &term.Table{Head: []string{n.by, "NODES", "GPUS", "HELD", "BUSY", "FREE", "UNHEALTHY", "$/H"}, Gap: 2, Spare: []string{"$/H", "BUSY", "NODES"}}
	for _, p := range pools {
		c := p.Total
		t.Add(cmp.Or(p.Value, "-"), strconv.Itoa(len(p.Nodes)), strconv.Itoa(c.Physical), held(c), busyText(c), term.FreeText(c.Free), strconv.Itoa(c.Unhealthy), priceText(c))
	}
	return t.Write(w, n.output.Screen(n.o.Out), n.output.NoHeaders)
}
