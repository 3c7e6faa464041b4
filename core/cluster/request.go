package cluster

import (
	"fmt"
	"math/bits"
)

// Whole is one whole GPU in milli-GPUs.
const Whole = 1000

// Products is a set of GPU products of one Snapshot, a bit for each. The empty
// set in a Request allows every product. Make it with Snapshot.Products.
type Products uint64

// NoProduct is a set that no GPU of any Snapshot is in: for requests that allow
// only products that the cluster has not.
const NoProduct Products = 1 << MaxProducts

// Has reports whether the product with the given number (GPU.Product) is in p, or
// p is empty.
func (p Products) Has(product uint8) bool { return p == 0 || p&(1<<product) != 0 }

// Len is the number of products in p.
func (p Products) Len() int { return bits.OnesCount64(uint64(p)) }

// Request is what one member of a workload asks of one node. It is comparable:
// equal requests are one shape, and are scored once for all. The zero Request
// asks for nothing and fits everywhere.
//
// Of GPUs it asks in one of four ways: whole GPUs (MilliGPU 1000), a share of
// each by milli (below 1000), a share of each by memory (GPUMemoryBytes, with
// MilliGPU 0), or MIG devices (Profile, with both 0).
type Request struct {
	CPUMilli       int64
	MemoryBytes    int64    // of the node, not of a GPU
	GPUs           int32    // GPUs, each a different one, or MIG devices or Units; 0 asks for none
	MilliGPU       int32    // of each GPU, 1-1000
	GPUMemoryBytes int64    // of each GPU
	Profile        string   // MIG profile such as "1g.5gb"
	Products       Products // allowed products; none is any
	OneClique      bool     // the GPUs must share one NVLink clique
	// Units says that the GPUs, whole as they are written (MilliGPU is 1000), are
	// devices as the node offers them: see Resolve.
	Units bool
	// SharesDo says that shares serve a request for several Units as GPUs do: see
	// Snapshot.SharesLast.
	SharesDo bool
	Class    uint32 // says which nodes it may use: see Snapshot.SetClass; 0 is every node
}

// Validate says what is wrong with r, or nil: a negative size, a share out of
// range, or two ways of asking at once.
func (r *Request) Validate() error {
	switch {
	case r.CPUMilli < 0 || r.MemoryBytes < 0 || r.GPUs < 0 || r.MilliGPU < 0 || r.GPUMemoryBytes < 0:
		return fmt.Errorf("request %+v: a size is negative", *r)
	case r.GPUs == 0 && (r.MilliGPU != 0 || r.GPUMemoryBytes != 0 || r.Profile != "" || r.OneClique):
		return fmt.Errorf("request for no GPU says what GPU it wants: set GPUs, or leave the rest empty")
	case r.GPUs == 0:
		return nil
	case r.Profile != "" && (r.MilliGPU != 0 || r.GPUMemoryBytes != 0 || r.OneClique):
		return fmt.Errorf("request for MIG profile %s also asks for a share or a clique: ask for one", r.Profile)
	case r.Profile != "":
		return nil
	case (r.MilliGPU > 0) == (r.GPUMemoryBytes > 0):
		return fmt.Errorf("request for %d GPUs: give either milli-GPUs or memory of each", r.GPUs)
	case r.Units && r.MilliGPU != Whole:
		return fmt.Errorf("request for %d milli-GPUs in units of the node: a unit is written as 1000", r.MilliGPU)
	case r.MilliGPU > Whole:
		return fmt.Errorf("request for %d milli-GPUs of one GPU: ask for 1000 at most, or for more GPUs", r.MilliGPU)
	}
	return nil
}

// IsWhole reports whether r asks for whole GPUs.
func (r *Request) IsWhole() bool { return r.MilliGPU == Whole }

// IsMIG reports whether r asks for MIG devices.
func (r *Request) IsMIG() bool { return r.Profile != "" }

// TotalMilli is what r asks for in milli-GPUs, over all its GPUs. It is 0 for
// shares by memory and MIG devices, whose part depends on the GPU.
func (r *Request) TotalMilli() int64 { return int64(r.GPUs) * int64(r.MilliGPU) }

// Size is a coarse class of request: what a node is said to hold.
type Size uint8

// The sizes. SizeGPU+n-1 is n whole GPUs, from 1 to 8; more than 8 count as 8.
const (
	SizeCPU   Size = iota // no GPU
	SizeShare             // part of a GPU: by milli, by memory or by MIG
	SizeGPU
	Sizes = SizeGPU + 8
)

// Size returns the size of r.
func (r *Request) Size() Size {
	switch {
	case r.GPUs == 0:
		return SizeCPU
	case !r.IsWhole():
		return SizeShare
	}
	return SizeGPU + Size(min(r.GPUs, 8)) - 1
}

// Device is a part of one GPU, or all of it, that a placement takes.
type Device struct {
	GPU         int32 // position in the node's GPUs
	MilliGPU    int32
	MemoryBytes int64
	Profile     int8 // MIG: number in the product's Profiles, plus 1; 0 is no MIG device
	Start       int8 // MIG: first memory slice
}

// Placement is a decision: which devices of which node a request gets.
type Placement struct {
	Node    int // position in the Snapshot
	Request Request
	Devices []Device // one for each of Request.GPUs, by GPU and start
	Ends    int64    // when it ends at the latest, in seconds since 1970; 0 is not known
}

// TotalMilli is what the devices take together, in milli-GPUs.
func (p *Placement) TotalMilli() int64 {
	var sum int64
	for _, d := range p.Devices {
		sum += int64(d.MilliGPU)
	}
	return sum
}
