package allocation

import (
	"fmt"
	"maps"
	"slices"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/agent/deviceplugin"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
)

// SetGPUs tells what the node has: what the driver says, which GPUs and MIG
// devices are well (by UUID; one that is not in the map is as the driver says),
// and how devices are offered. A driver that cannot be read (Snapshot.Failed)
// leaves the GPUs that were known, all unhealthy.
//
// Pods keep what they hold. One whose device is not offered in that form any
// more keeps others from the same piece of hardware until it ends.
//
// An error says why the node cannot be offered in this way, as sharing.Check
// does; the node stays as it was.
func (n *Node) SetGPUs(s nvml.Snapshot, healthy map[string]bool, settings config.Settings) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	failed := s.Failed != "" && len(s.GPUs) == 0
	if failed {
		s.GPUs = n.snapshot.GPUs
	}
	settings = settings.Clone()
	gpus := make([]gpu.GPU, 0, len(s.GPUs))
	for _, g := range s.GPUs {
		well, told := healthy[g.UUID]
		g.Healthy = g.Healthy && !g.Lost && !failed && (well || !told)
		g.MIG = slices.Clone(g.MIG)
		for i := range g.MIG {
			well, told := healthy[g.MIG[i].UUID]
			g.MIG[i].Unhealthy = told && !well
		}
		gpus = append(gpus, g.GPU)
	}
	ledger, err := sharing.NewLedger(gpus, settings.Sharing)
	if err != nil {
		return fmt.Errorf("offer the node's GPUs: %w", err)
	}
	other := !sameInventory(n.snapshot, s)
	n.snapshot, n.settings, n.gpus, n.ledger = s, settings, gpus, ledger
	if other && !failed {
		n.driver.forget()
	}
	if err := n.tokens.Reset(gpus, settings.Sharing); err != nil {
		return fmt.Errorf("number the node's GPUs: %w", err) // as above, which it passed
	}
	n.readGiven()
	n.recount()
	n.tell()
	signal(n.tidy)
	return nil
}

// sameInventory tells whether two snapshots have the same driver and devices, so
// that what the driver says of containers is the same.
func sameInventory(a, b nvml.Snapshot) bool {
	return a.Driver == b.Driver && slices.EqualFunc(a.GPUs, b.GPUs, func(x, y nvml.GPU) bool {
		return x.UUID == y.UUID && x.Minor == y.Minor && x.MIGEnabled == y.MIGEnabled &&
			slices.EqualFunc(x.MIG, y.MIG, func(m, o gpu.MIGDevice) bool { return m.UUID == o.UUID && m.GI == o.GI && m.CI == o.CI })
	})
}

// parent gives the UUID of the GPU of an index.
func (n *Node) parent(index int) string {
	for i := range n.gpus {
		if n.gpus[i].Index == index {
			return n.gpus[i].UUID
		}
	}
	return ""
}

// well tells whether the hardware of a device is there and healthy, whatever form
// it is offered in.
func (n *Node) well(d *device) bool {
	for i := range n.gpus {
		if g := &n.gpus[i]; g.UUID == d.Parent {
			ill := slices.ContainsFunc(g.MIG, func(m gpu.MIGDevice) bool { return m.UUID == d.UUID && m.Unhealthy })
			cut := d.UUID == d.Parent || slices.ContainsFunc(g.MIG, func(m gpu.MIGDevice) bool { return m.UUID == d.UUID })
			return g.Healthy && !ill && cut
		}
	}
	return false
}

// stillWell tells of tokens that stand for nothing that is offered: whether the
// hardware is well that their pods hold.
func (n *Node) stillWell(resource string) map[string]bool {
	out := map[string]bool{}
	for _, r := range n.records {
		for i := range r.Containers {
			c := &r.Containers[i]
			well := true
			for j := range c.Devices {
				well = well && n.well(&c.Devices[j])
			}
			for _, e := range c.Entries {
				for _, token := range e.Tokens {
					if e.Resource == resource {
						out[token] = well
					}
				}
			}
		}
	}
	return out
}

// Offers gives the devices by resource name, under their tokens; in mode kubelet
// under their own IDs. Beside another plugin nvidia.com/gpu-memory is not among them.
func (n *Node) Offers() map[string][]deviceplugin.Device {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.offered()
	if n.beside {
		delete(out, api.ResourceGPUMemory)
	}
	return out
}

func (n *Node) offered() map[string][]deviceplugin.Device {
	out := map[string][]deviceplugin.Device{}
	if n.ledger == nil {
		return out
	}
	if n.o.Kubelet {
		for _, d := range n.ledger.Devices() {
			// What pods hold by a name of ours, the kubelet does not know of: it was
			// given out before the node came to this mode.
			healthy := d.Healthy && (n.ledger.Free(d.ID) == nil && n.unread == nil || n.known(d.ID))
			out[d.Resource] = append(out[d.Resource], deviceplugin.Device{ID: d.ID, Healthy: healthy, NUMANode: d.NUMANode})
		}
		return out
	}
	holder := map[string]string{} // pod, by device
	for _, h := range n.ledger.Held() {
		holder[h.Device.ID] = h.Owner
	}
	for _, resource := range n.tokens.Resources() {
		list := n.tokens.List(resource)
		devices := make([]deviceplugin.Device, 0, len(list))
		var well map[string]bool
		for _, t := range list {
			d := deviceplugin.Device{ID: t.Name, Healthy: t.Device.Healthy, NUMANode: t.Device.NUMANode}
			switch {
			case t.Gone && well == nil:
				well = n.stillWell(resource)
				d.Healthy = well[t.Name]
			case t.Gone:
				d.Healthy = well[t.Name]
			case !t.Held && (n.unread != nil || holder[t.Device.ID] != ""):
				d.Healthy = false // held under another token, or perhaps: nobody is to be sent there
			}
			devices = append(devices, d)
		}
		out[resource] = devices
	}
	return out
}

// tell notes that holders may have changed, and whether what is offered has. n.mu is
// held.
func (n *Node) tell() {
	signal(n.held)
	now := n.offered()
	same := maps.EqualFunc(n.offers, now, func(a, b []deviceplugin.Device) bool { return slices.Equal(a, b) })
	if n.offers = now; !same {
		signal(n.changed)
	}
}

// known tells whether the kubelet has given out a device by its own ID.
func (n *Node) known(id string) bool {
	for _, r := range n.records {
		for i := range r.Containers {
			for _, e := range r.Containers[i].Entries {
				if e.Nonce == "" && slices.Contains(e.Tokens, id) {
					return true
				}
			}
		}
	}
	return false
}
