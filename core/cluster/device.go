package cluster

import "fmt"

// ShareBytes is the memory that goes with milli milli-GPUs of a GPU with the
// given memory: its proportion, rounded down.
func ShareBytes(milli int32, memoryBytes int64) int64 {
	return memoryBytes * int64(milli) / Whole
}

// ShareMilli is the milli-GPUs that go with a share by memory: its proportion,
// rounded down, from 1 to 1000. Where the memory is not known it is 1000.
func ShareMilli(bytes, memoryBytes int64) int32 {
	if memoryBytes <= 0 {
		return Whole
	}
	return int32(max(1, min(Whole, bytes*Whole/memoryBytes)))
}

// take marks d as held, or says why it cannot be.
func (s *Snapshot) take(n *Node, d *Device) error {
	if d.GPU < 0 || d.GPU >= n.count {
		return fmt.Errorf("GPU %d: the node has %d", d.GPU, n.count)
	}
	j := n.first + d.GPU
	g, c := &s.gpus[j], &s.static.cards[j]
	if d.Profile != 0 {
		return s.takeMIG(j, d)
	}
	switch free := g.offer(c); {
	case d.MilliGPU <= 0 || d.MemoryBytes < 0:
		return fmt.Errorf("GPU %d: a share of %d milli-GPUs and %d bytes is none", d.GPU, d.MilliGPU, d.MemoryBytes)
	case d.MilliGPU > int32(free):
		return fmt.Errorf("GPU %d: %d milli-GPUs asked, %d free", d.GPU, d.MilliGPU, free)
	case d.MemoryBytes > g.FreeBytes:
		return fmt.Errorf("GPU %d: %d bytes asked, %d free", d.GPU, d.MemoryBytes, g.FreeBytes)
	}
	if g.MIG {
		g.MIG, g.Parts = false, [8]int8{}
	}
	g.FreeMilli -= d.MilliGPU
	g.FreeBytes -= d.MemoryBytes
	if d.MemoryBytes != ShareBytes(d.MilliGPU, c.MemoryBytes) {
		n.memoryShares++
	}
	return nil
}

// holds reports whether d can be given back.
func (s *Snapshot) holds(n *Node, d *Device) bool {
	if d.GPU < 0 || d.GPU >= n.count {
		return false
	}
	j := n.first + d.GPU
	g := &s.gpus[j]
	if d.Profile != 0 {
		return g.MIG && d.Start >= 0 && d.Start < 8 && g.Held&(1<<d.Start) != 0 && g.Parts[d.Start] == d.Profile
	}
	return !g.MIG && d.MilliGPU > 0 && d.MilliGPU <= Whole-g.FreeMilli && d.MemoryBytes <= s.static.cards[j].MemoryBytes-g.FreeBytes
}

// give gives back a device that is held.
func (s *Snapshot) give(n *Node, d *Device) {
	j := n.first + d.GPU
	g := &s.gpus[j]
	g.FreeMilli += d.MilliGPU
	g.FreeBytes += d.MemoryBytes
	switch {
	case d.Profile != 0:
		g.Held &^= 1 << d.Start
	case d.MemoryBytes != ShareBytes(d.MilliGPU, s.static.cards[j].MemoryBytes):
		n.memoryShares--
	}
}

// MemoryShares reports whether node i holds shares by memory, beside which a share
// by milli may find too little memory.
func (s *Snapshot) MemoryShares(i int) bool { return s.nodes[i].memoryShares > 0 }
