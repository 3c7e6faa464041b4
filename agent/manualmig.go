package agent

import (
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/mig"
)

// reportManualMIG sends an event about each GPU whose MIG devices another program has
// changed since the snapshot before. The agent itself changes only GPUs that it has
// drained. A pod keeps a device that is gone, so no other pod gets it.
func (k *reconciler) reportManualMIG(before nvml.Snapshot) {
	for _, g := range k.snapshot.GPUs {
		was, _, known := before.Find(g.UUID)
		k.mu.Lock()
		own := k.drained[g.UUID]
		k.mu.Unlock()
		if !known || own || g.Lost || was.Lost || was.MIGEnabled == g.MIGEnabled && sameMIG(was, g) {
			continue
		}
		var lost []string
		for _, m := range was.MIG {
			if _, _, exists := k.snapshot.Find(m.UUID); exists {
				continue
			}
			for _, holder := range k.holders(m.UUID) {
				lost = append(lost, fmt.Sprintf("%s (%s) is gone under %s", m.UUID, m.Profile, holder))
			}
		}
		message := fmt.Sprintf("GPU %d (%s) was partitioned by another program: it had %s, and has %s", g.Index, g.UUID, layout(was), layout(g))
		if len(lost) == 0 {
			k.log.Warn("MIG", "change", message)
			k.nodeEvent("Normal", "MIGChanged", message)
			continue
		}
		message += "; " + strings.Join(lost, ", ") + ": stop what holds it, or recreate the MIG device"
		k.log.Warn("MIG", "change", message)
		k.nodeEvent("Warning", "MIGChanged", message)
	}
}

// sameMIG reports whether a GPU has the same MIG devices in two snapshots.
func sameMIG(a, b nvml.GPU) bool {
	return slices.EqualFunc(a.MIG, b.MIG, func(x, y gpu.MIGDevice) bool { return x.UUID == y.UUID && x.Profile == y.Profile })
}

// layout describes the MIG devices of a GPU.
func layout(g nvml.GPU) string {
	var profiles []string
	for _, m := range g.MIG {
		profiles = append(profiles, m.Profile)
	}
	slices.Sort(profiles)
	switch {
	case !g.MIGEnabled:
		return "MIG off"
	case len(profiles) == 0:
		return "no MIG devices"
	}
	return mig.Tally(profiles)
}
