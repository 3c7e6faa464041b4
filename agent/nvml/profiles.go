package nvml

import (
	"cmp"
	"errors"
	"slices"

	"berth.dev/berth/core/gpu"
)

// codeOf returns the NVML code within an error; 0 is none.
func codeOf(err error) Error {
	var code Error
	errors.As(err, &code)
	return code
}

// shape is a GPU instance profile and its number.
type shape struct {
	number int
	info   GPUInstanceProfile
}

// shapes lists the GPU instance profiles of a GPU, by number.
func shapes(dev Device) []shape {
	var out []shape
	for n := range GPUInstanceShapes {
		if info, err := dev.GPUInstanceProfile(n); err == nil {
			out = append(out, shape{number: n, info: info})
		}
	}
	return out
}

// suffix is what follows the name of a profile of a shape.
//
// Source: NVML_GPU_INSTANCE_PROFILE_... of nvml.h, and the names that
// nvidia-smi prints for them.
func suffix(number int) string {
	switch number {
	case 7, 8:
		return "+me"
	case 15, 16:
		return "+me.all"
	case 10, 11, 12, 17:
		return "+gfx"
	case 13, 14:
		return "-me"
	}
	return ""
}

// profiles lists the MIG profiles in the order of nvidia-smi mig -lgip, and in how
// many units the driver counts what is a memory slice here: it says {0,3,6,9}:3 of
// the four slices of an RTX PRO 6000. A driver may give placements only while MIG
// is on; the catalog then has them for the products it knows.
func profiles(dev Device, g GPU) (list []gpu.Profile, units int) {
	product, known := gpu.Find(g.Product)
	var out []gpu.Profile
	told := map[int]bool{} // places are the driver's
	for _, s := range shapes(dev) {
		p := gpu.Profile{
			Name: gpu.ProfileName(s.info.Slices, s.info.MemoryMiB, g.MemoryBytes>>20, false) + suffix(s.number),
			ID:   s.info.ID, Slices: s.info.Slices, Max: s.info.Max,
			MemoryMiB: s.info.MemoryMiB, Multiprocessors: s.info.Multiprocessors,
			CopyEngines: s.info.CopyEngines, Decoders: s.info.Decoders, Encoders: s.info.Encoders,
			JPEG: s.info.JPEG, OFA: s.info.OFA,
		}
		places, err := dev.Placements(s.info.ID)
		if err != nil && known {
			if like, ok := product.Profile(p.Name); ok {
				p.Size, p.Placements = like.Size, slices.Clone(like.Placements)
			}
		}
		for _, at := range places {
			p.Size = at.Size
			p.Placements = append(p.Placements, at.Start)
			units = divisor(divisor(units, at.Size), at.Start)
		}
		told[len(out)] = len(places) > 0
		slices.Sort(p.Placements)
		out = append(out, p)
	}
	units = max(1, units)
	for i := range out {
		if !told[i] {
			continue
		}
		out[i].Size /= units
		for j := range out[i].Placements {
			out[i].Placements[j] /= units
		}
	}
	slices.SortFunc(out, func(a, b gpu.Profile) int {
		return cmp.Or(cmp.Compare(a.Slices, b.Slices), cmp.Compare(a.MemoryMiB, b.MemoryMiB), cmp.Compare(a.Name, b.Name))
	})
	return out, units
}

// divisor is the greatest common divisor; 0 divides by everything.
func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// product is what gpu.Layout needs, as the driver tells it.
func (g GPU) product() gpu.Product {
	p := gpu.Product{Name: g.Product, MemoryMiB: g.MemoryBytes >> 20, ComputeSlices: g.ComputeSlices, Profiles: g.Profiles}
	for _, f := range g.Profiles {
		for _, start := range f.Placements {
			p.MemorySlices = max(p.MemorySlices, start+f.Size)
		}
	}
	return p
}
