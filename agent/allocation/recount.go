package allocation

import (
	"maps"

	"berth.dev/berth/core/sharing"
)

// recount holds in an empty ledger and the tokens what the records say: first
// all that is offered as it was given, then for the rest what is offered of the
// same hardware. n.mu is held.
func (n *Node) recount() {
	clear(n.astray)
	offered := map[string]sharing.Device{}
	for _, d := range n.ledger.Devices() {
		offered[d.ID] = d
	}
	uids := n.uids()
	for _, uid := range uids {
		for _, d := range n.records[uid].devices() {
			// A share of another size is another share, whatever its name.
			now, listed := offered[d.ID]
			same := !listed || now.MilliGPU == d.MilliGPU && now.MemoryBytes == d.MemoryBytes
			if !same || n.ledger.Restore(uid, []string{d.ID}) != nil {
				n.astray[uid] = true
			}
		}
	}
	for _, uid := range uids {
		if n.astray[uid] {
			n.house(n.records[uid])
		}
	}
	for _, uid := range uids {
		n.holdTokens(n.records[uid])
	}
}

// house holds for a pod with devices that are not offered as they were given
// what is offered of the same hardware and free, until it comes to as much.
// Where that is not to be had, nothing of that hardware is free for others.
func (n *Node) house(r *record) {
	held := map[string]bool{} // the pod's own
	for _, h := range n.ledger.Held() {
		if h.Owner == r.PodUID {
			held[h.Device.ID] = true
		}
	}
	asGiven := maps.Clone(held)
	for _, d := range r.devices() {
		if asGiven[d.ID] {
			continue
		}
		left := d.MilliGPU
		for _, near := range n.onSame(&d) {
			if left > 0 && !held[near.ID] && n.ledger.Restore(r.PodUID, []string{near.ID}) == nil {
				held[near.ID] = true
				left -= near.MilliGPU
			}
		}
		// A GPU that others have shares of by size: one more of these, as large as
		// there is room for.
		for size := left; size > 0; size /= 2 {
			if n.holdPart(r.PodUID, d.Parent, size) {
				break
			}
		}
	}
}

// holdPart holds a share of so many milli-GPUs of a GPU that is shared by size.
func (n *Node) holdPart(uid, gpu string, milli int64) bool {
	for serial := range len(n.records) + 8 { // another pod may have the number
		id := sharing.SizeID(gpu, sharing.ShareSize{MilliGPU: milli}, serial)
		if n.ledger.Free(id) == nil {
			return n.ledger.Restore(uid, []string{id}) == nil
		}
	}
	return false
}

// onSame lists what is offered of a device's hardware: first of the very GPU or
// MIG device, then of the same GPU.
func (n *Node) onSame(d *device) []sharing.Device {
	var same, near []sharing.Device
	for _, o := range n.ledger.Devices() {
		switch {
		case o.UUID == d.UUID:
			same = append(same, o)
		case n.parent(o.GPU) == d.Parent && (o.UUID == d.Parent || d.UUID == d.Parent):
			near = append(near, o) // the GPU of a MIG device, or a MIG device of the GPU
		}
	}
	return append(same, near...)
}

// holdTokens makes the tokens of a pod stand for what it holds. n.mu is held.
func (n *Node) holdTokens(r *record) {
	for i := range r.Containers {
		c := &r.Containers[i]
		for _, e := range c.Entries {
			n.holdEntry(r, c, e)
		}
	}
}

func (n *Node) holdEntry(r *record, c *container, e entry) {
	if e.Nonce == "" && !n.serves(e.Resource) {
		return // its plugin's alone
	}
	if e.Resource == sharing.ResourceMemory {
		uuid := ""
		for _, d := range c.Devices {
			if d.Resource == sharing.ResourceMemory {
				uuid = d.UUID
			}
		}
		n.tokens.HoldMemory(e.Tokens, uuid)
		return
	}
	var ids []string
	for _, d := range c.Devices {
		switch {
		case d.Resource == e.Resource && !n.astray[r.PodUID]:
			ids = append(ids, d.ID)
		case d.Resource == sharing.ResourceMemory:
			// A share that was asked for beside this resource: its GPU, unless
			// another pod's token stands for that.
			if t, ok := n.tokens.For(e.Resource, d.UUID); ok && !t.Held {
				ids = append(ids, d.UUID)
			}
		}
	}
	if n.astray[r.PodUID] {
		for _, h := range n.ledger.Held() {
			if h.Owner == r.PodUID && h.Device.Resource == e.Resource {
				ids = append(ids, h.Device.ID)
			}
		}
	}
	n.tokens.Hold(e.Resource, e.Tokens, ids)
}
