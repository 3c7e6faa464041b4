package placement

import "berth.dev/berth/core/cluster"

// The largest node that the scores of bestfit are scaled to: 128 cores and 8
// GPUs.
const (
	unitCPUMilli = 128000
	unitMilliGPU = 8000
)

// Steady is the part of a Policy that learns nothing and settles ties by rank.
type Steady struct{}

// Arrive implements Policy.
func (Steady) Arrive(*cluster.Request) bool { return false }

// Refuse implements Policy.
func (Steady) Refuse(*cluster.Request) {}

// Ties implements Policy.
func (Steady) Ties() Ties { return TiesByRank }

type bestFit struct{ Steady }

// NewBestFit returns bestfit: the node with the least left of CPU and GPU after
// placing, both weighed alike; inside it, the GPU with the least left.
//
// It is a baseline of the artifact of "Beware of Fragmentation" (Weng et al., USENIX
// ATC '23) with its integer rounding; see package sim/baseline for the others. Here
// it also chooses for what is only estimated: which pods to evict, and when there is room.
//
// The artifact then stretches the scores of the nodes that fit to 0-100. They
// are whole numbers within 0-100 before, so that changes no order.
func NewBestFit(Setup) Policy { return bestFit{} }

func (bestFit) Score(s *cluster.Snapshot, i int, r *cluster.Request) Score {
	if r.IsMIG() {
		return -Score(leastFree(s, i, r))
	}
	n := s.Node(i)
	cpu := float64(n.FreeCPUMilli-r.CPUMilli) / unitCPUMilli
	gpus := float64(int64(n.OpenMilli)-int64(r.GPUs)*int64(MilliOn(s, i, r))) / unitMilliGPU
	return Score(100 * (1 - 0.5*cpu - 0.5*gpus))
}

func (bestFit) Devices(s *cluster.Snapshot, i int, r *cluster.Request, out []cluster.Device) []cluster.Device {
	return Take(s, i, r, LeastOpen, out)
}

// leastFree is the least that a GPU of node i has free, in milli-GPUs, of those
// with room for a device of r. The paper has no MIG; this is best fit for it.
func leastFree(s *cluster.Snapshot, i int, r *cluster.Request) int32 {
	least := int32(cluster.Whole)
	for j, g := range s.GPUs(i) {
		if r.Products.Has(g.Product) && s.Starts(i, j, s.ProfileNumber(g.Product, r.Profile)) != 0 {
			least = min(least, g.FreeMilli)
		}
	}
	return least
}
