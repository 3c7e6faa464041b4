package sim

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"math/rand"
	"slices"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/placement"
)

// Room is a protocol for half-empty clusters: on nodes of 8 A100, pods of half a GPU and
// of 1, 2 and 4 GPUs come and go (see Churn), and now and then it is counted how many
// nodes could take a job of 8 GPUs, and how many could if what runs were packed again.
type Room struct {
	Nodes    int     // of 8 GPUs, 96 CPUs and 768 GiB
	CPUs     bool    // pods ask for 4, 8 or 12 CPUs a GPU, 8 GiB with each, and the job for 64; else for none
	Eights   float64 // part of the arrivals that are pods of 8 GPUs
	Load     float64 // such as 0.55; above 0
	Sigma    float64 // of the log-normal distribution of run times: 0.5 is little spread, 1.5 as much as real jobs
	Declared float64 // part of the pods that declare when they end
	Late     float64 // up to how many times as long as they run; below 1 is 1
	Policy   placement.Maker
}

// RoomRun is the result of one run. All are means over the measured window.
type RoomRun struct {
	Places           float64 // nodes that could take a job of 8 GPUs
	Possible         float64 // nodes left free of everything when what runs is packed again, largest first
	AllocatedPercent float64
}

// roomNode is a node of the protocol, empty.
var roomNode = cluster.Request{CPUMilli: 96_000, MemoryBytes: 768 << 30, GPUs: 8, MilliGPU: cluster.Whole} //nolint:gochecknoglobals // a constant

// Run runs the protocol with one seed: equal seeds give equal runs.
func (r Room) Run(seed int64) (RoomRun, error) {
	s, err := r.cluster()
	if err != nil {
		return RoomRun{}, err
	}
	job := cluster.Request{GPUs: 8, MilliGPU: cluster.Whole}
	if r.CPUs {
		job.CPUMilli, job.MemoryBytes = 64_000, 512<<30
	}
	var sum RoomRun
	looks := 0.0
	churn := Churn{Cluster: s, Pods: r.pods(seed), Load: r.Load, Policy: r.Policy, Runs: 8, Patience: math.MaxFloat64}
	churn.Look = func(s *cluster.Snapshot, running iter.Seq[*cluster.Placement]) {
		looks++
		for i := range s.Len() {
			if placement.Fit(s, i, &job) == placement.Fits {
				sum.Places++
			}
		}
		sum.Possible += float64(s.Len() - packed(running))
	}
	run, err := churn.Run(seed)
	if err != nil {
		return RoomRun{}, err
	}
	return RoomRun{Places: sum.Places / looks, Possible: sum.Possible / looks, AllocatedPercent: run.AllocatedPercent}, nil
}

// cluster makes the nodes.
func (r Room) cluster() (*cluster.Snapshot, error) {
	specs := make([]cluster.Spec, r.Nodes)
	for i := range specs {
		specs[i] = cluster.Spec{Name: fmt.Sprintf("node-%d", i), CPUMilli: roomNode.CPUMilli, MemoryBytes: roomNode.MemoryBytes}
		for j := range int(roomNode.GPUs) {
			specs[i].GPUs = append(specs[i].GPUs, gpu.GPU{
				Index: j, UUID: fmt.Sprintf("GPU-%d-%d", i, j), Product: "NVIDIA A100-SXM4-80GB", MemoryBytes: 80 << 30, Healthy: true,
			})
		}
	}
	return cluster.New(specs)
}

// pods draws pods in the order in which they come.
func (r Room) pods(seed int64) []Pod {
	rng := rand.New(rand.NewSource(seed))
	pods, ends := make([]Pod, 2000), rand.New(rand.NewSource(seed+1<<32))
	for i := range pods {
		p := Pod{GPUs: 1, MilliGPU: cluster.Whole, Run: 600 * math.Exp(r.Sigma*rng.NormFloat64()), HasRun: true}
		switch u := rng.Float64() - r.Eights; {
		case u < 0:
			p.GPUs = 8
		case u < 0.12:
			p.GPUs = 4
		case u < 0.35:
			p.GPUs = 2
		case u < 0.5:
			p.MilliGPU = cluster.Whole / 2
		}
		if r.CPUs {
			perGPU := [...]int64{4, 8, 8, 12}[rng.Intn(4)] * int64(p.GPUs)
			p.CPUMilli, p.MemoryBytes = 1000*perGPU, perGPU<<33
		}
		if r.Declared > 0 {
			u, v := ends.Float64(), ends.Float64()
			if u < r.Declared {
				p.Most = p.Run * (1 + v*(max(1, r.Late)-1))
			}
		}
		pods[i] = p
	}
	return pods
}

// packed is how many nodes running needs if packed again: largest first, each on the
// fullest node that has room. That is not always the fewest that would do.
func packed(running iter.Seq[*cluster.Placement]) int {
	var jobs []*cluster.Request
	for p := range running {
		jobs = append(jobs, &p.Request)
	}
	slices.SortFunc(jobs, func(a, b *cluster.Request) int {
		return cmp.Or(cmp.Compare(b.TotalMilli(), a.TotalMilli()), cmp.Compare(b.CPUMilli, a.CPUMilli))
	})
	var nodes []bin
	for _, r := range jobs {
		best := -1
		for i, b := range nodes {
			if b.fits(r) && (best < 0 || b.milli < nodes[best].milli) {
				best = i
			}
		}
		if best < 0 {
			nodes = append(nodes, bin{roomNode.CPUMilli, roomNode.MemoryBytes, roomNode.TotalMilli()})
			best = len(nodes) - 1
		}
		nodes[best].take(r)
	}
	return len(nodes)
}

// bin is what is free of a node, GPUs taken together.
type bin struct{ cpu, memory, milli int64 }

func (b bin) fits(r *cluster.Request) bool {
	return b.cpu >= r.CPUMilli && b.memory >= r.MemoryBytes && b.milli >= r.TotalMilli()
}

func (b *bin) take(r *cluster.Request) {
	b.cpu, b.memory, b.milli = b.cpu-r.CPUMilli, b.memory-r.MemoryBytes, b.milli-r.TotalMilli()
}
