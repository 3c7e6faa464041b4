package sim

import (
	"hash/fnv"
	"slices"

	"berth.dev/berth/core/cluster"
)

// LongestGang is the run time at which jobs are cut where WithGangs makes gangs: four whole nodes for a week would decide a run.
const LongestGang = 2 * day

// gangMix are the gangs that WithGangs makes, of so many percent of the pods that ask for GPUs.
var gangMix = []struct {
	percent uint32
	pods    int
	gpus    int // of each pod
}{{10, 2, 1}, {10, 4, 1}, {11, 8, 1}, {5, 2, 8}, {2, 4, 8}}

// WithGangs returns the pods of a trace that has no gangs, with gangs in the place of some: 10 % are two pods, 10 % four, and 11 %
// eight of one GPU each, 5 % two and 2 % four of eight GPUs each. The same pods become the same gangs. Times are kept, and with one GPU
// CPU and memory; pods of eight GPUs take nodes, so they ask for no more.
func WithGangs(pods []Pod) []Pod {
	out := slices.Clone(pods)
	for i := range out {
		p := &out[i]
		if p.GPUs == 0 {
			continue
		}
		h := fnv.New32a()
		h.Write([]byte(p.Name))
		at := h.Sum32() % 100
		for _, g := range gangMix {
			if at >= g.percent {
				at -= g.percent
				continue
			}
			p.Pods, p.GPUs, p.MilliGPU, p.GPUMemoryBytes, p.Profile = g.pods, g.gpus, cluster.Whole, 0, ""
			if g.gpus > 1 {
				p.CPUMilli, p.MemoryBytes = 0, 0
			}
			break
		}
	}
	return out
}
