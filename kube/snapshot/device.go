package snapshot

import (
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/devices"
)

// deviceOf is a device of a ledger as the Snapshot counts it; false is that the node
// has no such device.
func (b *Builder) deviceOf(at *Node, d *sharing.Device) (cluster.Device, bool) {
	if d.Profile != "" {
		return b.migDevice(at, d.UUID)
	}
	for j, c := range b.Snapshot.Cards(at.Index) {
		if c.Index != d.GPU {
			continue
		}
		out := cluster.Device{GPU: int32(j), MilliGPU: int32(max(1, d.MilliGPU)), MemoryBytes: d.MemoryBytes}
		if d.Resource != sharing.ResourceMemory {
			out.MemoryBytes = cluster.ShareBytes(out.MilliGPU, c.MemoryBytes)
		}
		return out, true
	}
	return cluster.Device{}, false
}

// migDevice is the MIG device of a node with a UUID.
func (b *Builder) migDevice(at *Node, uuid string) (cluster.Device, bool) {
	p, ok := at.mig[uuid]
	if !ok {
		return cluster.Device{}, false
	}
	number := b.Snapshot.ProfileNumber(b.Snapshot.GPUs(at.Index)[p.gpu].Product, p.profile)
	if number == 0 {
		return cluster.Device{}, false
	}
	return b.Snapshot.MIGDevice(at.Index, p.gpu, number, p.start), true
}

// Named returns the devices of a placement on a node with their UUIDs; false is that
// one of them has none.
func (b *Builder) Named(at *Node, list []cluster.Device) ([]sharing.Named, bool) {
	cards := b.Snapshot.Cards(at.Index)
	out := make([]sharing.Named, 0, len(list))
	for _, d := range list {
		uuid := cards[d.GPU].UUID
		if d.Profile != 0 {
			uuid = ""
			for name, p := range at.mig {
				if p.gpu == int(d.GPU) && p.start == int(d.Start) {
					uuid = name
				}
			}
		}
		if uuid == "" || uuid == devices.UnknownUUID {
			return nil, false
		}
		out = append(out, sharing.Named{UUID: uuid, MilliGPU: int64(d.MilliGPU), MemoryBytes: d.MemoryBytes})
	}
	return out, true
}

// Named returns devices of a node of the Snapshot with their UUIDs; false is that there is no such node, or that
// one of them has no UUID.
func (c *Cluster) Named(node string, list []cluster.Device) ([]sharing.Named, bool) {
	n := c.open[node]
	if n == nil {
		return nil, false
	}
	return c.builder.Named(n.at, list)
}
