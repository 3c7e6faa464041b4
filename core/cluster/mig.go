package cluster

import (
	"fmt"
	"slices"

	"berth.dev/berth/core/gpu"
)

// HasMIG reports whether a GPU of node i is cut into MIG devices or may be.
func (s *Snapshot) HasMIG(i int) bool { return s.nodes[i].hasMIG }

// ProfileNumber returns the number, plus 1, of a MIG profile among those of the
// product with the given number, or 0 if it has no such profile.
func (s *Snapshot) ProfileNumber(product uint8, name string) int8 {
	profiles := s.static.products[product].profiles
	for i := range profiles {
		if profiles[i].Name == name {
			return int8(i + 1)
		}
	}
	return 0
}

// Starts returns where on GPU j of node i a MIG device of the given profile (as
// from ProfileNumber) may be taken now: a bit for each memory slice. They are
// the free devices that the GPU has, or with RecutFree every legal place; a GPU
// that is empty and has no such device offers every legal place with RecutEmpty
// too.
func (s *Snapshot) Starts(i, j int, profile int8) uint8 {
	return s.starts(s.nodes[i].first+int32(j), profile)
}

func (s *Snapshot) starts(j int32, profile int8) uint8 {
	g, c := &s.gpus[j], &s.static.cards[j]
	p := &s.static.products[g.Product]
	if !g.Healthy || profile < 1 || int(profile) > len(p.profiles) {
		return 0
	}
	empty := g.Held == 0 && (g.MIG || g.FreeMilli == Whole)
	switch {
	case !g.MIG && (!empty || c.Recut == RecutNever):
		return 0
	case c.Recut == RecutFree:
		return p.legal(g, profile)
	}
	var out uint8
	for start, part := range g.Parts {
		if part == profile && g.Held&(1<<start) == 0 {
			out |= 1 << start
		}
	}
	if out == 0 && empty && c.Recut == RecutEmpty {
		return p.legal(g, profile)
	}
	return out
}

// legal returns the starts at which profile may be cut beside the held devices.
// Budgets as in gpu.Layout: at most Max of a profile, and the GPU's compute
// slices, optical flow units and media engines in all.
func (p *product) legal(g *GPU, profile int8) uint8 {
	f := &p.profiles[profile-1]
	slicesHeld, ofa, ofaMost, media, same, used := 0, 0, 0, f.MediaUnits(), 0, uint(0)
	for i := range p.profiles {
		ofaMost = max(ofaMost, p.profiles[i].OFA)
	}
	for start, part := range g.Parts {
		if part == 0 || g.Held&(1<<start) == 0 {
			continue
		}
		h := &p.profiles[part-1]
		slicesHeld += h.Slices
		ofa += h.OFA
		media += h.MediaUnits()
		used |= (1<<h.Size - 1) << start
		if part == profile {
			same++
		}
	}
	if slicesHeld+f.Slices > p.computeSlices || ofa+f.OFA > ofaMost || media > gpu.MediaUnitsMost || same >= f.Max {
		return 0
	}
	var out uint8
	for _, start := range f.Placements {
		if used&((1<<f.Size-1)<<start) == 0 {
			out |= 1 << start
		}
	}
	return out
}

// MIGDevice returns the device of a profile (as from ProfileNumber) at start on
// GPU j of node i, as Assume wants it. Its MilliGPU is in proportion to its
// compute slices, rounded down.
func (s *Snapshot) MIGDevice(i, j int, profile int8, start int) Device {
	p := &s.static.products[s.GPUs(i)[j].Product]
	f := &p.profiles[profile-1]
	return Device{
		GPU: int32(j), Profile: profile, Start: int8(start),
		MilliGPU: int32(Whole * f.Slices / p.computeSlices), MemoryBytes: f.MemoryMiB << 20,
	}
}

// takeMIG marks the MIG device d of GPU j as held, and cuts the GPU again where
// that is needed and allowed: its free devices go.
func (s *Snapshot) takeMIG(j int32, d *Device) error {
	g, c := &s.gpus[j], &s.static.cards[j]
	if d.Start < 0 || d.Start > 7 || s.starts(j, d.Profile)&(1<<d.Start) == 0 {
		return fmt.Errorf("GPU %d: no place for MIG profile number %d at slice %d", d.GPU, d.Profile, d.Start)
	}
	if d.MilliGPU > g.FreeMilli {
		return fmt.Errorf("GPU %d: %d milli-GPUs asked, %d free", d.GPU, d.MilliGPU, g.FreeMilli)
	}
	p := &s.static.products[g.Product]
	if !g.MIG || g.Parts[d.Start] != d.Profile {
		p.recut(g, d, c.Recut)
	}
	g.MIG = true
	g.Held |= 1 << d.Start
	g.FreeMilli -= d.MilliGPU
	g.FreeBytes -= d.MemoryBytes
	return nil
}

// recut makes room for d: every free device of the GPU goes. A GPU that may
// change only while empty gets as many devices of d's profile as it holds.
func (p *product) recut(g *GPU, d *Device, how Recut) {
	for start := range g.Parts {
		if g.Held&(1<<start) == 0 {
			g.Parts[start] = 0
		}
	}
	g.Parts[d.Start] = d.Profile
	if how != RecutEmpty {
		return
	}
	f := &p.profiles[d.Profile-1]
	count, used := 1, f.Slices
	for _, start := range f.Placements {
		if start == int(d.Start) || count == f.Max || used+f.Slices > p.computeSlices {
			continue
		}
		g.Parts[start] = d.Profile
		count++
		used += f.Slices
	}
}

// cut gives rec the MIG devices it has, with none held.
func (s *Snapshot) cut(rec *GPU, devices []gpu.MIGDevice) error {
	for i := range devices {
		d := &devices[i]
		f := s.ProfileNumber(rec.Product, d.Profile)
		if f == 0 {
			return fmt.Errorf("MIG device %s: not a profile of %s", d.Profile, s.static.products[rec.Product].name)
		}
		placements := s.static.products[rec.Product].profiles[f-1].Placements
		if !slices.Contains(placements, d.Start) || rec.Parts[d.Start] != 0 {
			return fmt.Errorf("MIG device %s at slice %d: it may start at %v, one at each", d.Profile, d.Start, placements)
		}
		rec.Parts[d.Start] = f
	}
	return nil
}
