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
	d := &tally{machine: m, at: map[string]place{}, held: make([]part, len(m.gpus))}
	if !m.named {
		d.adopt(claimed)
	}
	for i, g := range d.gpus {
		if g.UUID != UnknownUUID {
			d.at[g.UUID] = place{i, -1}
		}
		for j := range g.MIG {
			if n := d.migReplicas(g.MIG[j].Profile); n > 1 {
				d.gpus[i].MIG[j].Shares = n
			}
			d.at[g.MIG[j].UUID] = place{i, j}
		}
	}
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
	whole, memory, shares := oneGPU, g.MemoryBytes, max(1, g.Shares)
	if p.mig >= 0 {
		m := &g.MIG[p.mig]
		whole = oneGPU.times(int64(m.Slices), int64(d.computeSlices()))
		memory, shares = m.MemoryBytes, max(1, m.Shares)
	}
	h.part = whole
	h.MemoryBytes = cmp.Or(c.memory, memory)
	switch {
	case c.milli > 0 && c.resource != "": // a share by size, as the kubelet tells of it
		h.part, h.MemoryBytes = sizedPart(c, memory)
	case c.milli > 0:
		h.part = exact(c.milli, whole, shares)
	case c.memory > 0 && memory > 0:
		h.part = whole.times(c.memory, memory)
	case c.share:
		h.part = whole / part(shares)
		h.MemoryBytes = d.shareMemory(memory, shares)
	}
	h.MilliGPU = h.part.milliDown()
	d.held[p.gpu] += h.part
	if p.mig >= 0 {
		g.MIG[p.mig].Holders = append(g.MIG[p.mig].Holders, h)
		return
	}
	g.Holders = append(g.Holders, h)
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
func (d *tally) shareMemory(memory int64, n int) int64 {
	if d.label(labelSharing) == string(gpu.SharingMPS) {
		return memory / int64(n)
	}
	return memory
}

// guess counts a claim whose device is not known, or is not one of the node's.
func (d *tally) guess(c claim, h Holder) {
	size := d.unit(c.resource)
	if c.resource == "" {
		size = oneGPU.times(max(1, c.milli), 1000)
	}
	h.MemoryBytes = c.memory
	n := max(1, c.count)
	if c.resource != "" && c.milli > 0 {
		size, h.MemoryBytes = sizedPart(c, d.memory())
	} else if c.memory > 0 && d.memory() > 0 {
		size = oneGPU.times(c.memory, d.memory())
	} else if gibs := c.count; c.resource != "" && gibs > 0 && d.byMemory(c.resource) {
		n, h.MemoryBytes = 1, min(gibs, 1<<32)*gib
		size = oneGPU.times(h.MemoryBytes, d.memory())
	}
	// A pod that was forced onto the node may ask for any number.
	n = min(n, int64(max(d.capacity(c.resource), len(d.gpus))))
	h.part = size
	h.MilliGPU = size.milliDown()
	for range n {
		d.unplaced = append(d.unplaced, h)
	}
}

func (d *tally) byMemory(resource string) bool { return resource == api.ResourceGPUMemory }

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
