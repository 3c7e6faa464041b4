package doctor

import (
	"fmt"
	"strings"

	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/devices"
)

// claims tells of GPUs that are offered by dynamic resource allocation, and finds nodes
// that offer the same ones as resources too: neither side knows what the other gave.
func (e *examined) claims() []finding.Finding {
	const name = "dra"
	if len(e.dra.Devices) == 0 {
		return nil
	}
	total := 0
	for _, n := range e.dra.Devices {
		total += n
	}
	out := []finding.Finding{ok(name, "%s of %s on %s, for claims", count(total, "device"), devices.DRADriver, count(len(e.dra.Devices), "node"))}
	var both []string
	for _, n := range e.offering {
		if e.dra.Devices[n.Name] > 0 {
			both = append(both, n.Name)
		}
	}
	if len(both) > 0 {
		out = append(out, fail(name, fmt.Sprintf("%s %s GPUs to claims and as resources, so that two pods may get the same one: %s",
			count(len(both), "node"), verb(len(both), "offers", "offer"), few(both)),
			"turn one of the two off there: the DRA driver's GPUs, or the device plugin"))
	}
	if f, some := e.unclaimed(); some {
		out = append(out, f)
	}
	return out
}

// unclaimed counts what only claims get, although a device class names it as a GPU
// resource: kube-scheduler makes claims for pods that request the resource (KEP-5004),
// and Berth's scheduler does not.
func (e *examined) unclaimed() (finding.Finding, bool) {
	offered, nodes := 0, []string(nil)
	for _, node := range sortedKeys(e.dra.Devices) {
		if n := e.byName[node]; n != nil && e.dra.Only(n) > 0 {
			offered, nodes = offered+e.dra.Only(n), append(nodes, node)
		}
	}
	if !e.Guarded || len(e.dra.Resources) == 0 || len(nodes) == 0 {
		return finding.Finding{}, false
	}
	return warn("dra", fmt.Sprintf("%s on %s (%s) %s for claims only: Berth's scheduler gives none to pods that request %s, although a device class names it",
		count(offered, "device"), count(len(nodes), "node"), few(nodes), verb(offered, "is", "are"), strings.Join(e.dra.Resources, ", ")),
		"request them by spec.resourceClaims, have kube-scheduler schedule those pods, or run a device plugin there"), true
}
