package cluster

import "berth.dev/berth/core/gpu"

// Recut says when a GPU that can do MIG may be cut again.
type Recut uint8

const (
	// RecutNever keeps the MIG devices that the GPU has, and keeps a GPU that is
	// not in MIG mode out of it.
	RecutNever Recut = iota
	// RecutEmpty lets a GPU of which nothing is held change: into as many
	// devices of one profile as it holds, or back to a whole GPU.
	RecutEmpty
	// RecutFree also lets the slices be cut again that no held device uses, while
	// others are held, as NVIDIA's driver allows.
	RecutFree
)

// Spec describes one node to New.
type Spec struct {
	Name        string // unique in the Snapshot
	CPUMilli    int64  // allocatable
	MemoryBytes int64  // allocatable
	GPUs        []gpu.GPU
	Recut       Recut
	// Profiles are the MIG profiles of GPUs whose product gpu.Find does not
	// know; nil is none. MIG devices of GPUs name theirs.
	Profiles []gpu.Profile
	// Shares is how many devices each GPU is offered as; 0 and 1 are one. See
	// Resolve.
	Shares   int32
	SharesDo bool  // several shares serve as GPUs do: see Snapshot.SharesLast
	Pods     int32 // most requests held at once; 0 is no limit
}

// Node is what is free on one node and, in short, what its GPUs offer.
type Node struct {
	Name            string
	CPUMilli        int64 // allocatable
	MemoryBytes     int64 // allocatable
	FreeCPUMilli    int64
	FreeMemoryBytes int64
	Pods, FreePods  int32 // requests that may be held, and that still may
	Shares          int32 // devices that each GPU is offered as; at least 1
	SharesDo        bool  // several of them serve as GPUs do

	Products Products // of its GPUs
	// OpenMilli is the sum of Snapshot.Open, MostOpen the largest of it, and
	// Idle how many are 1000.
	OpenMilli, MostOpen, Idle int32

	Held [Sizes]uint16 // requests held, by size

	first, count int32  // its GPUs in Snapshot.gpus
	memoryShares uint16 // held devices whose memory is not in proportion
	hasMIG       bool   // a GPU is or may be cut
	base         base   // taken beside all placements
}

// base is what is taken of a node beside all placements.
type base struct {
	cpuMilli, memoryBytes int64
	pods                  int32
}

// Resolve returns r as node i takes it: a request for devices as the node offers
// them (Units) becomes one for whole GPUs or, where each GPU of the node is
// offered as n shares, for so many n-ths. Then Units stays, and says that several
// of them may be of one GPU.
func (s *Snapshot) Resolve(i int, r *Request) Request {
	out := *r
	if out.Units {
		out.Units, out.MilliGPU = s.nodes[i].Shares > 1, max(1, Whole/s.nodes[i].Shares)
	}
	return out
}

// SharesLast reports whether node i is a last resort for r: r asks for several GPUs
// and would get shares there, which do not add up, and neither r nor the node says
// that they do.
func (s *Snapshot) SharesLast(i int, r *Request) bool {
	n := &s.nodes[i]
	return r.Units && r.GPUs > 1 && !r.SharesDo && n.Shares > 1 && !n.SharesDo
}

// GPU is what is free on one GPU.
type GPU struct {
	FreeBytes int64 // of its memory; 0 where memory is not known
	FreeMilli int32
	Product   uint8 // number of its product in the Snapshot
	Healthy   bool
	Held      uint8   // MIG: a bit for each start of a held device
	MIG       bool    // cut into MIG devices now
	Parts     [8]int8 // MIG: profile number plus 1 of the device that starts at a memory slice; 0 is none
}

// Card is what does not change about one GPU.
type Card struct {
	UUID        string
	Index       int
	MemoryBytes int64 // 0 is not known: shares by memory do not fit
	Clique      int   // GPUs of a node with equal Clique share an NVLink fabric; 0 is none
	NUMANode    int   // -1 is unknown
	Recut       Recut
}

// offer is what shares and whole requests may take of g, in milli-GPUs.
func (g *GPU) offer(c *Card) int16 {
	switch {
	case !g.Healthy:
		return 0
	case !g.MIG:
		return int16(g.FreeMilli)
	case c.Recut != RecutNever && g.Held == 0:
		return Whole
	}
	return 0
}
