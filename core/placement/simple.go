package placement

import "berth.dev/berth/core/cluster"

// The baselines below are those of the artifact of "Beware of Fragmentation:
// Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (Weng
// et al., USENIX ATC '23; github.com/hkust-adsl/kubernetes-scheduler-simulator),
// with its integer rounding, which its published figures depend on.

// unit is the largest node that the artifact's scores are scaled to: 128 cores
// and 8 GPUs.
const (
	unitCPUMilli = 128000
	unitMilliGPU = 8000
)

// steady is the part of a Policy that is the same for all baselines: nothing is
// learned, and ties go by rank.
type steady struct{}

func (steady) Arrive(*cluster.Request) bool { return false }
func (steady) Refuse(*cluster.Request)      {}
func (steady) Ties() Ties                   { return TiesByRank }

// asked is what r asks of node i in milli-GPUs.
func asked(s *cluster.Snapshot, i int, r *cluster.Request) int64 {
	return int64(r.GPUs) * int64(milliOn(s, i, r))
}

type bestFit struct{ steady }

// NewBestFit makes bestfit: the node with the least left of CPU and GPU after
// placing, both weighed alike; inside it, the GPU with the least left.
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
	gpus := float64(int64(n.OpenMilli)-asked(s, i, r)) / unitMilliGPU
	return Score(100 * (1 - 0.5*cpu - 0.5*gpus))
}

func (bestFit) Devices(s *cluster.Snapshot, i int, r *cluster.Request, out []cluster.Device) []cluster.Device {
	return take(s, i, r, leastOpen, out)
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

type dotProduct struct{ steady }

// NewDotProduct makes dotproduct: the node whose free CPU and GPU, as a vector,
// is least along what is asked (Tetris, Grandl et al., SIGCOMM '14, as the FGD
// artifact turns it); inside it, the GPU with the least left.
func NewDotProduct(Setup) Policy { return dotProduct{} }

func (dotProduct) Score(s *cluster.Snapshot, i int, r *cluster.Request) Score {
	n := s.Node(i)
	cpu := float64(n.FreeCPUMilli) / unitCPUMilli * float64(r.CPUMilli) / unitCPUMilli
	gpus := float64(n.OpenMilli) / unitMilliGPU * float64(asked(s, i, r)) / unitMilliGPU
	return Score(100 * (1 - (cpu+gpus)/2))
}

func (dotProduct) Devices(s *cluster.Snapshot, i int, r *cluster.Request, out []cluster.Device) []cluster.Device {
	return take(s, i, r, leastOpen, out)
}

type firstFit struct{ steady }

// NewFirstFit makes first-fit: the first node, in their order, and the first
// GPUs of it, by index. It stands for a stock cluster, where no one looks at
// what a choice leaves behind: kube-scheduler counts devices and a kubelet
// hands out the first free ones.
func NewFirstFit(Setup) Policy { return firstFit{} }

func (firstFit) Score(_ *cluster.Snapshot, i int, _ *cluster.Request) Score { return -Score(i) }

func (firstFit) Devices(s *cluster.Snapshot, i int, r *cluster.Request, out []cluster.Device) []cluster.Device {
	return take(s, i, r, lowest, out)
}

type random struct {
	steady
	rand func(n int) int
}

// NewRandom makes random: a node that fits and, for a share, a GPU that fits,
// each equally likely. It needs Setup.Rand.
func NewRandom(s Setup) Policy { return random{rand: s.Rand} }

func (random) Ties() Ties                                           { return TiesRandom }
func (random) Score(*cluster.Snapshot, int, *cluster.Request) Score { return 0 }

func (p random) Devices(s *cluster.Snapshot, i int, r *cluster.Request, out []cluster.Device) []cluster.Device {
	if r.GPUs != 1 || r.IsWhole() || r.IsMIG() {
		return take(s, i, r, lowest, out)
	}
	fits := make([]int, 0, 8)
	for j := range s.Open(i) {
		if roomOn(s, i, j, r) == roomBoth {
			fits = append(fits, j)
		}
	}
	return append(out, device(s, i, fits[p.rand(len(fits))], r))
}

type packing struct{ steady }

// NewPacking makes packing (the artifact's GpuPacking): used GPUs of used nodes
// first, then idle GPUs of used nodes, then idle nodes.
func NewPacking(Setup) Policy { return packing{} }

func (packing) Score(s *cluster.Snapshot, i int, r *cluster.Request) Score {
	n, open := s.Node(i), s.Open(i)
	if r.GPUs == 0 {
		return 0
	}
	if count := Score(len(open)); n.Idle == int32(len(open)) {
		return max(33-count, count)
	}
	if r.IsWhole() {
		return max(50-Score(r.GPUs), 33)
	}
	var buf [8]cluster.Device
	idle, left := Score(0), int64(0)
	for _, d := range take(s, i, r, leastOpen, buf[:0]) {
		if open[d.GPU] == cluster.Whole {
			idle++
		}
		left += int64(open[d.GPU]) * 100 / cluster.Whole
	}
	if idle > 0 {
		return max(50-idle, 33)
	}
	return Score(max(100-left/10, 50))
}

func (packing) Devices(s *cluster.Snapshot, i int, r *cluster.Request, out []cluster.Device) []cluster.Device {
	return take(s, i, r, leastOpen, out)
}

type clustering struct{ steady }

// NewClustering makes clustering (the artifact's GpuClustering, after Gandiva,
// Xiao et al., OSDI '18): nodes that hold requests of the same size first, and
// of those the fullest.
func NewClustering(Setup) Policy { return clustering{} }

func (clustering) Score(s *cluster.Snapshot, i int, r *cluster.Request) Score {
	n := s.Node(i)
	if r.GPUs == 0 {
		return 0
	}
	base := Score(25 * (unitMilliGPU - int64(n.OpenMilli)) / unitMilliGPU)
	same, other := n.Held[r.Size()] > 0, false
	for size := cluster.SizeShare; size < cluster.Sizes; size++ {
		other = other || size != r.Size() && n.Held[size] > 0
	}
	switch {
	case same && !other:
		return base + 75
	case same:
		return base + 50
	case !other:
		return base + 25
	}
	return base
}

func (clustering) Devices(s *cluster.Snapshot, i int, r *cluster.Request, out []cluster.Device) []cluster.Device {
	return take(s, i, r, leastOpen, out)
}
