package nodes

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/view"
)

// nodeHead are the columns of nodeTable; -o wide has more before the holders.
var nodeHead = []string{"NODE", "PRODUCT", "GPUS", "HELD", "BUSY", "FREE", "UNHEALTHY", "$/H"}

// nodeTable is the table of `berth nodes`, with a line of totals.
func nodeTable(nodes []devices.Node, v view.View, wide bool) *term.Table {
	t := &term.Table{Head: slices.Clone(nodeHead), Gap: 2, Spare: []string{"$/H", "BUSY"}}
	if v.Total.Unhealthy == 0 {
		t.Spare = append(t.Spare, "UNHEALTHY")
	}
	t.Spare = append(t.Spare, "PRODUCT")
	if wide {
		t.Head = append(t.Head, "DEVICES", "DRIVER", "CUDA", "CAPACITY", "ZONE", "TAINTS")
	}
	t.Head = append(t.Head, "HELD BY")
	line := func(name, product string, c devices.Count, unhealthy, heldBy string, more ...string) {
		cells := append(
			[]string{name, product, strconv.Itoa(c.Physical), held(c), busyText(c), term.FreeText(c.Free), unhealthy, priceText(c)},
			more...)
		t.Add(append(cells, heldBy)...)
	}
	for _, n := range nodes {
		var more []string
		if wide {
			more = wideCells(n)
		}
		line(n.Name, productText(n, wide), n.Count, unhealthyText(n), fitHeld(n, 0), more...)
	}
	var blank []string
	if wide {
		blank = make([]string, 6)
	}
	line("TOTAL", "", v.Total, strconv.Itoa(v.Total.Unhealthy), waitingText(v), blank...)
	if !wide {
		t.Fit = func(row, width int) string {
			if row == len(nodes) {
				return waitingText(v)
			}
			return fitHeld(nodes[row], width)
		}
	}
	t.Alarm = func(row, column int) bool { return column == 6 && row < len(nodes) && nodes[row].Unhealthy > 0 }
	return t
}

// allocationTable has the columns that GPU tutorials show, and no other.
func allocationTable(nodes []devices.Node) *term.Table {
	t := &term.Table{Head: []string{"NODE", "GPU TOTAL", "GPU ALLOCATED", "GPU UTILIZATION"}, Gap: 3}
	for _, n := range nodes {
		t.Add(n.Name, strconv.Itoa(n.Physical), fmt.Sprintf("%s (%d%%)", term.MilliText(n.Held), percent(n.Count)), busyText(n.Count))
	}
	return t
}

func percent(c devices.Count) int64 {
	if c.Physical == 0 {
		return 0
	}
	all := int64(c.Physical) * 1000
	return (c.Held*200 + all) / (2 * all)
}

// held is "6 (75%)", "2.43 (30%)" or "0".
func held(c devices.Count) string {
	if c.Held == 0 {
		return "0"
	}
	return fmt.Sprintf("%s (%d%%)", term.MilliText(c.Held), percent(c))
}

func busyText(c devices.Count) string {
	if !c.BusyKnown {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", c.Busy*100)
}

// priceText is what an hour costs: dollars without their name, and other currencies with it.
func priceText(c devices.Count) string {
	var parts []string
	for _, p := range c.Prices {
		cents := (p.Micros + 5_000) / 10_000
		text := fmt.Sprintf("%d.%02d", cents/100, cents%100)
		if p.Currency != cost.Dollar {
			text += " " + p.Currency
		}
		parts = append(parts, text)
	}
	return cmp.Or(strings.Join(parts, " + "), "-")
}

func productText(n devices.Node, wide bool) string {
	switch {
	case len(n.GPUs) == 0:
		return "-"
	case wide:
		return n.Product
	}
	return gpu.ShortName(n.Product)
}

// unhealthyText is the number of unhealthy GPUs and their Xids.
func unhealthyText(n devices.Node) string {
	var xids []string
	for _, g := range n.GPUs {
		if x := strconv.Itoa(g.Xid); !g.Healthy && g.Xid != 0 && !slices.Contains(xids, x) {
			xids = append(xids, x)
		}
	}
	if len(xids) == 0 {
		return strconv.Itoa(n.Unhealthy)
	}
	return fmt.Sprintf("%d (XID %s)", n.Unhealthy, strings.Join(xids, ", "))
}

// heldLead is what stands before the holders: why nothing is free, and how
// many devices are held where they are parts of GPUs.
func heldLead(n devices.Node) string {
	var lead []string
	if n.Remark != "" {
		lead = append(lead, n.Remark)
	}
	if n.ClaimOnly > 0 {
		lead = append(lead, fmt.Sprintf("DRA only (%d), not used by Berth yet", n.ClaimOnly))
	}
	if n.Sharing != "" && n.Devices > 0 {
		lead = append(lead, fmt.Sprintf("%d/%d %s", n.DevicesHeld, n.Devices, strings.TrimSuffix(n.Sharing, " devices")))
	}
	if len(lead) == 0 || len(n.HeldBy) == 0 {
		return strings.Join(lead, "; ")
	}
	return strings.Join(lead, "; ") + ": "
}

// owners names the holders of a node, and how many of their pods wait.
func owners(n devices.Node, waiting bool) []string {
	var out []string
	for _, h := range n.HeldBy {
		more := ""
		if waiting && h.Waiting > 0 {
			more = fmt.Sprintf(", %d waiting", h.Waiting)
		}
		out = append(out, fmt.Sprintf("%s (%s%s)", h.Owner, term.MilliText(h.MilliGPU), more))
	}
	return out
}

// fitHeld is the last column: in full where it fits, else without who waits,
// and then cut.
func fitHeld(n devices.Node, width int) string {
	full := term.FitList(heldLead(n), owners(n, true), 0)
	if width <= 0 || utf8.RuneCountInString(full) <= width {
		return full
	}
	return term.FitList(heldLead(n), owners(n, false), width)
}

func waitingText(v view.View) string {
	switch n := WaitingPods(v); n {
	case 0:
		return ""
	case 1:
		return "1 pod waits"
	default:
		return fmt.Sprintf("%d pods wait", n)
	}
}

// wideCells are the further columns of -o wide.
func wideCells(n devices.Node) []string {
	label := func(key string) string {
		if v := n.Labels[key]; v != "" {
			return v
		}
		return "-"
	}
	return []string{
		fmt.Sprintf("%d/%d", n.DevicesHeld, n.Devices),
		label("nvidia.com/cuda.driver-version.full"), label("nvidia.com/cuda.runtime-version.full"),
		label("karpenter.sh/capacity-type"), label("topology.kubernetes.io/zone"), cmp.Or(strings.Join(n.Taints, ","), "-"),
	}
}
