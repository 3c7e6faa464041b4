package devices

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
)

const gib = 1 << 30

// place is where a UUID of a node is: a GPU, or a MIG device of it (mig >= 0).
type place struct{ gpu, mig int }

// tally counts the pods of one node onto its GPUs.
type tally struct {
	machine
	at       map[string]place
	held     []part // of each GPU
	unplaced []Holder
}

func newTally(m machine, claimed [][]claim) *tally {
	d := &tally{machine: m, held: make([]part, len(m.gpus))}
	if !m.named {
		d.adopt(claimed)
	}
	d.at = d.places()
	return d
}

// adopt gives the UUIDs that pods are known to hold, in order, to GPUs of a
// node that has published none.
func (d *tally) adopt(claimed [][]claim) {
	var uuids []string
	for _, list := range claimed {
		for _, c := range list {
			if strings.HasPrefix(c.uuid, "GPU-") {
				uuids = append(uuids, c.uuid)
			}
		}
	}
	slices.Sort(uuids)
	uuids = slices.Compact(uuids)
	for i := range min(len(uuids), len(d.gpus)) {
		d.gpus[i].UUID = uuids[i]
	}
}

// hold counts one pod.
func (d *tally) hold(pod *v1.Pod, list []claim) {
	base := Holder{Owner: request.OwnerOf(pod), Pod: pod.Name, User: request.User(pod), Since: request.Since(pod)}
	_, base.Stuck = stuckAt(pod)
	for _, c := range list {
		h := base
		h.Container, h.Resource, h.UUID = c.container, c.resource, cmp.Or(c.uuid, UnknownUUID)
		if p, ok := d.at[c.uuid]; ok && c.uuid != "" {
			d.put(p, c, h)
			continue
		}
		d.guess(c, h)
	}
}

// put counts a claim on the device it names.
func (d *tally) put(p place, c claim, h Holder) {
	g := &d.gpus[p.gpu]
	h.part, h.MemoryBytes = d.sizeAt(p, c)
	h.MilliGPU = h.part.milliDown()
	d.held[p.gpu] += h.part
	if p.mig >= 0 {
		g.MIG[p.mig].Holders = append(g.MIG[p.mig].Holders, h)
		return
	}
	g.Holders = append(g.Holders, h)
}

// sizeAt is how much of a GPU a claim takes on the device that it names, and its memory.
func (m *machine) sizeAt(p place, c claim) (size part, bytes int64) {
	g := &m.gpus[p.gpu]
	whole, memory, shares := oneGPU, g.MemoryBytes, max(1, g.Shares)
	if p.mig >= 0 {
		d := &g.MIG[p.mig]
		whole = oneGPU.times(int64(d.Slices), int64(m.computeSlices()))
		memory, shares = d.MemoryBytes, max(1, d.Shares)
	}
	switch {
	case c.milli > 0 && c.resource != "": // a share by size, as the kubelet reports it
		return sizedPart(c, memory)
	case c.milli > 0:
		return exact(c.milli, whole, shares), cmp.Or(c.memory, memory)
	case c.memory > 0 && memory > 0:
		return whole.times(c.memory, memory), c.memory
	case c.share:
		return whole / part(shares), m.shareMemory(memory, shares)
	}
	return whole, cmp.Or(c.memory, memory)
}

// sizedPart is the part of a GPU that a share by size takes, and its memory.
func sizedPart(c claim, memory int64) (size part, bytes int64) {
	milli, bytes := sharing.ShareSize{MilliGPU: c.milli, MemoryMiB: c.memory >> 20}.Of(memory)
	return oneGPU.times(milli, 1000), bytes
}

// exact undoes the rounding of a committed milli-GPU: 142 is all of a MIG
// device of one slice of seven, and 333 is one of three shares.
func exact(milli int64, whole part, shares int) part {
	one := whole.milliDown()
	if milli >= one {
		return whole
	}
	if shares > 1 && (milli == one/int64(shares) || milli == (whole/part(shares)).milliDown()) {
		return whole / part(shares)
	}
	return oneGPU.times(milli, 1000)
}

// shareMemory is what one of n shares may use: an equal part under MPS, all of
// it under time-slicing, which fences nothing.
func (m *machine) shareMemory(memory int64, n int) int64 {
	if m.label(labelSharing) == string(gpu.SharingMPS) {
		return memory / int64(n)
	}
	return memory
}

// guess counts a claim whose device is not known, or is not one of the node's.
func (d *tally) guess(c claim, h Holder) {
	var n int64
	h.part, h.MemoryBytes, n = d.sizeOff(c)
	h.MilliGPU = h.part.milliDown()
	for range n {
		d.unplaced = append(d.unplaced, h)
	}
}

// sizeOff is how much of a GPU each of the n devices of a claim takes whose device is not
// known, or is not one of the node's, and its memory.
func (m *machine) sizeOff(c claim) (size part, bytes, n int64) {
	size, bytes, n = m.unit(c.resource), c.memory, max(1, c.count)
	switch {
	case c.resource != "" && c.milli > 0:
		size, bytes = sizedPart(c, m.memory())
	case c.memory > 0 && m.memory() > 0:
		size = oneGPU.times(c.memory, m.memory())
	case c.resource == "":
		size = oneGPU.times(max(1, c.milli), 1000)
	case c.resource == api.ResourceGPUMemory && c.count > 0:
		n, bytes = 1, min(c.count, 1<<32)*gib
		size = oneGPU.times(bytes, m.memory())
	}
	// A pod that was forced onto the node may ask for any number.
	return size, bytes, min(n, int64(max(m.capacity(c.resource), len(m.gpus))))
}

// settle puts holders whose device is not known onto GPUs that have no name
// either, the largest first, each where there is room.
func (d *tally) settle() {
	if d.named {
		return
	}
	slices.SortStableFunc(d.unplaced, func(a, b Holder) int { return cmp.Compare(b.part, a.part) })
	var rest []Holder
	for _, h := range d.unplaced {
		i := d.room(h.part)
		if i < 0 {
			rest = append(rest, h)
			continue
		}
		d.held[i] += h.part
		d.gpus[i].Holders = append(d.gpus[i].Holders, h)
	}
	d.unplaced = rest
}

// room finds a GPU for a part: one that has no UUID first, healthy or not, as
// a GPU that fails keeps its holder.
func (d *tally) room(size part) int {
	for _, named := range []bool{false, true} {
		for i, g := range d.gpus {
			if (g.UUID != UnknownUUID) == named && d.held[i]+size <= oneGPU {
				return i
			}
		}
	}
	return -1
}
