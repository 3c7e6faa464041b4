package baseline

import (
	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/placement"
)

// unit is the largest node that the artifact's scores are scaled to: 128 cores
// and 8 GPUs.
const (
	unitCPUMilli = 128000
	unitMilliGPU = 8000
)

// asked is what r asks of node i in milli-GPUs.
func asked(s *cluster.Snapshot, i int, r *cluster.Request) int64 {
	return int64(r.GPUs) * int64(placement.MilliOn(s, i, r))
}

type dotProduct struct{ placement.Steady }

// NewDotProduct returns dotproduct: the node whose free CPU and GPU, as a vector,
// is least along what is asked (Tetris, Grandl et al., SIGCOMM '14, as the FGD
// artifact turns it); inside it, the GPU with the least left.
func NewDotProduct(placement.Setup) placement.Policy { return dotProduct{} }

func (dotProduct) Score(s *cluster.Snapshot, i int, r *cluster.Request) placement.Score {
	n := s.Node(i)
	cpu := float64(n.FreeCPUMilli) / unitCPUMilli * float64(r.CPUMilli) / unitCPUMilli
	gpus := float64(n.OpenMilli) / unitMilliGPU * float64(asked(s, i, r)) / unitMilliGPU
	return placement.Score(100 * (1 - (cpu+gpus)/2))
}

func (dotProduct) Devices(s *cluster.Snapshot, i int, r *cluster.Request, out []cluster.Device) []cluster.Device {
	return placement.Take(s, i, r, placement.LeastOpen, out)
}

type firstFit struct{ placement.Steady }

// NewFirstFit returns first-fit: the first node, in their order, and the first
// GPUs of it, by index. It stands for a stock cluster, where no one looks at
// what a choice leaves behind: kube-scheduler counts devices and a kubelet
// hands out the first free ones.
func NewFirstFit(placement.Setup) placement.Policy { return firstFit{} }

func (firstFit) Score(_ *cluster.Snapshot, i int, _ *cluster.Request) placement.Score {
	return -placement.Score(i)
}

func (firstFit) Devices(s *cluster.Snapshot, i int, r *cluster.Request, out []cluster.Device) []cluster.Device {
	return placement.Take(s, i, r, placement.Lowest, out)
}

type random struct {
	placement.Steady
	rand func(n int) int
}

// NewRandom returns random: a node that fits and, for a share, a GPU that fits,
// each equally likely. It needs Setup.Rand.
func NewRandom(s placement.Setup) placement.Policy { return random{rand: s.Rand} }

func (random) Ties() placement.Ties                                           { return placement.TiesRandom }
func (random) Score(*cluster.Snapshot, int, *cluster.Request) placement.Score { return 0 }

// Devices implements placement.Policy: one share is on any GPU that has room for it.
func (p random) Devices(s *cluster.Snapshot, i int, r *cluster.Request, out []cluster.Device) []cluster.Device {
	if r.GPUs != 1 || r.IsWhole() || r.IsMIG() {
		return placement.Take(s, i, r, placement.Lowest, out)
	}
	fits := make([]int, 0, 8)
	for j := range s.Open(i) {
		if placement.HasRoom(s, i, j, r) {
			fits = append(fits, j)
		}
	}
	return append(out, placement.DeviceOf(s, i, fits[p.rand(len(fits))], r))
}

type packing struct{ placement.Steady }

// NewPacking returns packing (the artifact's GpuPacking): used GPUs of used nodes
// first, then idle GPUs of used nodes, then idle nodes.
func NewPacking(placement.Setup) placement.Policy { return packing{} }

func (packing) Score(s *cluster.Snapshot, i int, r *cluster.Request) placement.Score {
	n, open := s.Node(i), s.Open(i)
	if r.GPUs == 0 {
		return 0
	}
	if count := placement.Score(len(open)); n.Idle == int32(len(open)) {
		return max(33-count, count)
	}
	if r.IsWhole() {
		return max(50-placement.Score(r.GPUs), 33)
	}
	var buf [8]cluster.Device
	idle, left := placement.Score(0), int64(0)
	for _, d := range placement.Take(s, i, r, placement.LeastOpen, buf[:0]) {
		if open[d.GPU] == cluster.Whole {
			idle++
		}
		left += int64(open[d.GPU]) * 100 / cluster.Whole
	}
	if idle > 0 {
		return max(50-idle, 33)
	}
	return placement.Score(max(100-left/10, 50))
}

func (packing) Devices(s *cluster.Snapshot, i int, r *cluster.Request, out []cluster.Device) []cluster.Device {
	return placement.Take(s, i, r, placement.LeastOpen, out)
}

type clustering struct{ placement.Steady }

// NewClustering returns clustering (the artifact's GpuClustering, after Gandiva,
// Xiao et al., OSDI '18): nodes that hold requests of the same size first, and
// of those the fullest.
func NewClustering(placement.Setup) placement.Policy { return clustering{} }

func (clustering) Score(s *cluster.Snapshot, i int, r *cluster.Request) placement.Score {
	n := s.Node(i)
	if r.GPUs == 0 {
		return 0
	}
	base := placement.Score(25 * (unitMilliGPU - int64(n.OpenMilli)) / unitMilliGPU)
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
	return placement.Take(s, i, r, placement.LeastOpen, out)
}
