package doctor

import (
	"fmt"
	"slices"

	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/exporter"
)

// Scrape is what the exporter of a node said.
type Scrape struct {
	Node     string
	Exported exporter.Devices
}

// MostScrapes is how many exporters are read: those of a cluster are mostly alike.
const MostScrapes = 8

// exported compares what exporters publish with the devices of their nodes.
func (e *examined) exported() []finding.Finding {
	var fewer, blind, xids []string
	for _, s := range e.Scrapes {
		i := slices.IndexFunc(e.view.Nodes, func(n devices.Node) bool { return n.Name == s.Node })
		if i < 0 || e.view.Nodes[i].Physical == 0 {
			continue
		}
		n := &e.view.Nodes[i]
		switch {
		case s.Exported.GPUs < n.Physical:
			fewer = append(fewer, fmt.Sprintf("%s (%d of %d)", n.Name, s.Exported.GPUs, n.Physical))
		case s.Exported.MIG > s.Exported.MIGActive:
			blind = append(blind, fmt.Sprintf("%s (%d of %d)", n.Name, s.Exported.MIG-s.Exported.MIGActive, s.Exported.MIG))
		}
		if s.Exported.GPUs > 0 && !s.Exported.Xids && !simulated(e.byName[n.Name]) { // what is simulated is the default of NVIDIA's
			xids = append(xids, n.Name)
		}
	}
	for _, list := range [][]string{fewer, blind, xids} {
		slices.Sort(list)
	}
	var out []finding.Finding
	if len(fewer) > 0 {
		out = append(out, warn("exporter-series", "the exporter has series of fewer GPUs than its node has: "+few(fewer)+": of the others no use, temperature, or error is seen",
			"look at the exporter's log there, and at its setting for devices (-d, DCGM_EXPORTER_DEVICES_STR); a GPU that DCGM does not see often fell off the bus"))
	}
	if len(blind) > 0 {
		out = append(out, warn("mig-series", "MIG devices have no series that says how busy they are, as DCGM_FI_DEV_GPU_UTIL is not measured for them: "+few(blind),
			"add DCGM_FI_PROF_GR_ENGINE_ACTIVE to the exporter's file of metrics; profiling needs the capability SYS_ADMIN"))
	}
	if len(xids) > 0 {
		out = append(out, warn("xid-counts", fmt.Sprintf("the exporter counts no Xids on %s: alerts of failing GPUs see the last code at most: %s", count(len(xids), "node"), few(xids)),
			"uncomment DCGM_EXP_XID_ERRORS_COUNT in the exporter's file of metrics, or use Berth's agent, which has berth_gpu_xid_errors_total"))
	}
	return out
}
