package allocation

import (
	"maps"
	"slices"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/agent/deviceplugin"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
)

// SetGPUs sets what the node has: the driver's snapshot, which GPUs and MIG devices
// are healthy (by UUID; one that is not in the map is as the snapshot says), and
// how devices are offered. If the driver cannot be read (Snapshot.Failed), the
// GPUs stay those that were known, all unhealthy.
//
// Pods keep what they hold. If a pod's device is no longer offered in that form,
// other pods cannot get the same hardware until the pod ends.
//
// An error says why the node cannot be offered in this way, as sharing.Check does;
// nothing has changed then.
func (n *Node) SetGPUs(s nvml.Snapshot, healthy map[string]bool, settings config.Settings) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	failed := s.Failed != "" && len(s.GPUs) == 0
	if failed {
		s.GPUs = n.builder.Snapshot.GPUs
	}
	settings = settings.Clone()
	if err := n.ledger.SetGPUs(withHealth(s.GPUs, healthy, failed), settings); err != nil {
		return err
	}
	other := !sameInventory(n.builder.Snapshot, s)
	n.builder.Snapshot, n.builder.Settings = s, settings
	if other && !failed {
		n.driver.Invalidate()
	}
	n.readCheckpoint()
	n.ledger.Recount()
	n.publish()
	signal(n.tidy)
	return nil
}

// withHealth returns the GPUs of a snapshot with their health set. failed says that
// the driver cannot be read, so none is healthy.
func withHealth(list []nvml.GPU, healthy map[string]bool, failed bool) []gpu.GPU {
	out := make([]gpu.GPU, 0, len(list))
	for _, g := range list {
		is, judged := healthy[g.UUID]
		g.Healthy = g.Healthy && !g.Lost && !failed && (is || !judged)
		g.MIG = slices.Clone(g.MIG)
		for i := range g.MIG {
			is, judged := healthy[g.MIG[i].UUID]
			g.MIG[i].Unhealthy = judged && !is
		}
		out = append(out, g.GPU)
	}
	return out
}

// sameInventory reports whether two snapshots have the same driver and devices, so
// the driver's CDI spec is the same.
func sameInventory(a, b nvml.Snapshot) bool {
	return a.Driver == b.Driver && slices.EqualFunc(a.GPUs, b.GPUs, func(x, y nvml.GPU) bool {
		return x.UUID == y.UUID && x.Minor == y.Minor && x.MIGEnabled == y.MIGEnabled &&
			slices.EqualFunc(x.MIG, y.MIG, func(m, o gpu.MIGDevice) bool { return m.UUID == o.UUID && m.GI == o.GI && m.CI == o.CI })
	})
}

// Offers returns the devices by resource name, under their placeholder IDs; in mode
// kubelet under their own. While another plugin serves GPUs of the node,
// nvidia.com/gpu-memory is not among them.
func (n *Node) Offers() map[string][]deviceplugin.Device {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.ledger.Offers(n.othersUnknown == nil)
	if n.otherPlugin {
		delete(out, api.ResourceGPUMemory)
	}
	return out
}

// publish signals that holders may have changed, and that offers have if they did.
// n.mu is held.
func (n *Node) publish() {
	signal(n.held)
	now := n.ledger.Offers(n.othersUnknown == nil)
	same := maps.EqualFunc(n.offers, now, func(a, b []deviceplugin.Device) bool { return slices.Equal(a, b) })
	if n.offers = now; !same {
		signal(n.changed)
	}
}
