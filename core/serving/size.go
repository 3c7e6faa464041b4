package serving

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"berth.dev/berth/core/gpu"
)

// Spare is what a replica should have beyond what was seen of it, as a factor: requests may be larger tomorrow.
const Spare = 1.2

// greedy is the part of its memory from which on a server is likely to have taken all that there is.
const greedy = 0.8

// Use is the most that was seen of a replica.
type Use struct {
	Product     gpu.Product
	Profile     string // of the MIG device that it has; "" is whole GPUs
	Devices     int
	MemoryBytes int64   // over all its devices
	Busy        float64 // of the busiest device, 0-1
}

// Size is a part of a GPU that would do.
type Size struct {
	MIG         string // profile; "" is not a MIG device
	MemoryGiB   int64  // of a share; 0 is not a share
	PerGPU      int    // replicas on one GPU
	MemoryBytes int64
}

// Sizes returns the parts of a GPU that would do for a replica: the smallest MIG device, and a share by memory, as far as they are less than a GPU.
// why is why there is none, as a sentence.
func (u *Use) Sizes() (out []Size, why string) {
	p, need, busy := u.Product, int64(float64(u.MemoryBytes)*Spare), u.Busy
	whole, has := p.MemoryMiB<<20, p.MemoryMiB<<20*int64(max(u.Devices, 1))
	if f, ok := p.Profile(u.Profile); u.Profile != "" && ok {
		has, busy = f.MemoryMiB<<20, busy*float64(f.Slices)/float64(p.ComputeSlices)
	}
	switch {
	case u.MemoryBytes == 0:
		return nil, "no memory was seen in use; wait until the model is loaded"
	case float64(u.MemoryBytes) >= greedy*float64(has):
		return nil, fmt.Sprintf("the server has %s of %s: servers such as vLLM and TensorFlow take what there is, so this does not tell what the model needs. "+
			"Limit it (--gpu-memory-utilization of vLLM, TF_FORCE_GPU_ALLOW_GROWTH=true for TensorFlow), and ask again", GiB(u.MemoryBytes), GiB(has))
	case need > whole:
		return nil, fmt.Sprintf("with a fifth to spare it needs %s, which is more than one GPU has", GiB(need))
	}
	profiles := slices.Clone(p.Profiles)
	slices.SortStableFunc(profiles, func(a, b gpu.Profile) int {
		return cmp.Or(cmp.Compare(a.MemoryMiB, b.MemoryMiB), cmp.Compare(a.Slices, b.Slices), cmp.Compare(len(a.Name), len(b.Name)))
	})
	for _, f := range profiles {
		if f.MemoryMiB<<20 >= need && float64(f.Slices) >= busy*Spare*float64(p.ComputeSlices) && f.Max > 1 {
			out = append(out, Size{MIG: f.Name, PerGPU: f.Max, MemoryBytes: f.MemoryMiB << 20})
			break
		}
	}
	gib := max((need+1<<30-1)>>30, 1)
	n := int(whole >> 30 / gib)
	if busy > 0 {
		n = min(n, int(math.Floor(1/(busy*Spare)+1e-9)))
	}
	if n > 1 {
		out = append(out, Size{MemoryGiB: gib, PerGPU: n, MemoryBytes: gib << 30})
	}
	switch {
	case len(out) > 0:
	case u.Devices > 1:
		return nil, fmt.Sprintf("with a fifth to spare it needs %s, which one GPU has: ask for 1 in place of %d", GiB(need), u.Devices)
	default:
		return nil, "it needs most of a GPU: a whole one is right"
	}
	return out, ""
}

// GiB writes an amount of memory.
func GiB(bytes int64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }
