package gpu

import (
	"math"
	"strconv"
	"strings"
)

// Profile is one shape of GPU instance that a product can be cut into. A compute
// instance fills it, unless the name of a device says otherwise (ParseProfile).
//
// Source: nvidia-smi mig -lgip and -lgipp of each product, and NVIDIA's MIG User
// Guide. Memory varies by a few hundred MiB from driver to driver. Derived are: of
// B200 the figures of 3g and above, of H100 PCIe those of 1g with double memory,
// and of the products made by scaled all multiprocessors and memory.
type Profile struct {
	Name       string // such as "1g.5gb", "1g.5gb+me" or "1g.24gb-me"
	ID         int    // GPU instance profile ID, as nvidia-smi prints it
	Slices     int    // compute slices
	Size       int    // memory slices, of Product.MemorySlices
	Max        int    // most of this profile on one GPU
	Placements []int  // memory slices at which it may start, ascending

	MemoryMiB       int64
	Multiprocessors int

	CopyEngines, Decoders, Encoders, JPEG, OFA int
}

// Media reports whether the profile has the media extensions (+me).
func (p Profile) Media() bool { return strings.HasSuffix(p.Name, "+me") }

// MediaUnits is what a device of the profile takes of the MediaUnitsMost of a GPU:
// one that has all of the media engines (+me.all) leaves none, so beside it there
// are only devices without any (-me).
func (p Profile) MediaUnits() int {
	switch p.Suffix() {
	case "+me.all":
		return MediaUnitsMost
	case "-me":
		return 0
	}
	return 1
}

// MediaUnitsMost is the budget of MediaUnits, which is more than the devices of a
// GPU.
const MediaUnitsMost = 8

// ComputeSizes are the compute slices that a compute instance in a GPU instance of
// the profile can have, ascending.
//
// Source: nvidia-smi mig -lcip of each product.
func (p Profile) ComputeSizes() []int {
	var out []int
	for _, n := range []int{1, 2, 3, 4, 6} {
		if n < p.Slices && (n != 3 || p.Slices != 4) && (n != 6 || p.Slices > 7) {
			out = append(out, n)
		}
	}
	return append(out, p.Slices)
}

// Suffix is what follows the memory in the name: "+me", "+me.all", "+gfx", "-me",
// or "".
func (p Profile) Suffix() string {
	if i := strings.IndexAny(p.Name, "+-"); i >= 0 {
		return p.Name[i:]
	}
	return ""
}

// ProfileName returns the name NVIDIA's tools give to a MIG device of the given
// compute slices and memory, on a GPU of totalMiB: the memory is rounded up to
// eighths of the GPU's. media adds "+me".
//
// Source: the name rule of NVIDIA's go-nvlib.
func ProfileName(slices int, memoryMiB, totalMiB int64, media bool) string {
	eighths := math.Ceil(float64(8*memoryMiB) / float64(totalMiB))
	gb := math.Round(eighths / 8 * math.Ceil(float64(totalMiB)/1024))
	name := strconv.Itoa(slices) + "g." + strconv.Itoa(int(gb)) + "gb"
	if media {
		name += "+me"
	}
	return name
}

// cut is the part of a seven-way profile table that differs by product.
type cut struct {
	name      string
	memoryMiB int64
	sm        int
	engines   [4]int // copy, decoder, JPEG, OFA
}

// sevenWay makes the profiles of a GPU with 7 compute and 8 memory slices. The
// rows are 1g, 1g+me, 1g with double memory, 2g, 3g, 4g and 7g.
func sevenWay(rows [7]cut) []Profile {
	shapes := [7]Profile{
		{ID: 19, Slices: 1, Size: 1, Max: 7, Placements: []int{0, 1, 2, 3, 4, 5, 6}},
		{ID: 20, Slices: 1, Size: 1, Max: 1, Placements: []int{0, 1, 2, 3, 4, 5, 6}},
		{ID: 15, Slices: 1, Size: 2, Max: 4, Placements: []int{0, 2, 4, 6}},
		{ID: 14, Slices: 2, Size: 2, Max: 3, Placements: []int{0, 2, 4}},
		{ID: 9, Slices: 3, Size: 4, Max: 2, Placements: []int{0, 4}},
		{ID: 5, Slices: 4, Size: 4, Max: 1, Placements: []int{0}},
		{ID: 0, Slices: 7, Size: 8, Max: 1, Placements: []int{0}},
	}
	return fill(shapes[:], rows[:])
}

// fill joins shapes and rows of equal length.
func fill(shapes []Profile, rows []cut) []Profile {
	for i, r := range rows {
		p := &shapes[i]
		p.Name, p.MemoryMiB, p.Multiprocessors = r.name, r.memoryMiB, r.sm
		p.CopyEngines, p.Decoders, p.JPEG, p.OFA = r.engines[0], r.engines[1], r.engines[2], r.engines[3]
	}
	return shapes
}

func a100Profiles40() []Profile {
	return sevenWay([7]cut{
		{"1g.5gb", 4864, 14, [4]int{1, 0, 0, 0}},
		{"1g.5gb+me", 4864, 14, [4]int{1, 1, 1, 1}},
		{"1g.10gb", 9856, 14, [4]int{1, 0, 0, 0}},
		{"2g.10gb", 9856, 28, [4]int{2, 1, 0, 0}},
		{"3g.20gb", 19968, 42, [4]int{3, 2, 0, 0}},
		{"4g.20gb", 20096, 56, [4]int{4, 2, 0, 0}},
		{"7g.40gb", 40448, 98, [4]int{7, 5, 1, 1}},
	})
}

func a100Profiles80() []Profile {
	return sevenWay([7]cut{
		{"1g.10gb", 9728, 14, [4]int{1, 0, 0, 0}},
		{"1g.10gb+me", 9728, 14, [4]int{1, 1, 1, 1}},
		{"1g.20gb", 19968, 14, [4]int{1, 0, 0, 0}},
		{"2g.20gb", 19968, 28, [4]int{2, 1, 0, 0}},
		{"3g.40gb", 40192, 42, [4]int{3, 2, 0, 0}},
		{"4g.40gb", 40192, 56, [4]int{4, 2, 0, 0}},
		{"7g.80gb", 80896, 98, [4]int{7, 5, 1, 1}},
	})
}

// a30Profiles: 4 compute and 4 memory slices.
func a30Profiles() []Profile {
	return fill([]Profile{
		{ID: 14, Slices: 1, Size: 1, Max: 4, Placements: []int{0, 1, 2, 3}},
		{ID: 21, Slices: 1, Size: 1, Max: 1, Placements: []int{0, 1, 2, 3}},
		{ID: 5, Slices: 2, Size: 2, Max: 2, Placements: []int{0, 2}},
		{ID: 6, Slices: 2, Size: 2, Max: 1, Placements: []int{0, 2}},
		{ID: 0, Slices: 4, Size: 4, Max: 1, Placements: []int{0}},
	}, []cut{
		{"1g.6gb", 5952, 14, [4]int{1, 0, 0, 0}},
		{"1g.6gb+me", 5952, 14, [4]int{1, 1, 1, 1}},
		{"2g.12gb", 11968, 28, [4]int{2, 2, 0, 0}},
		{"2g.12gb+me", 11968, 28, [4]int{2, 2, 1, 1}},
		{"4g.24gb", 24064, 56, [4]int{4, 4, 1, 1}},
	})
}

// hopperWay returns the engines of Hopper and Blackwell; copies are the copy
// engines of 1g (with +me and double memory), 2g, 3g, 4g and 7g.
func hopperWay(rows [7]cut, copies [5]int) []Profile {
	engines := [7][4]int{
		{copies[0], 1, 1, 0},
		{copies[0], 1, 1, 1},
		{copies[0], 1, 1, 0},
		{copies[1], 2, 2, 0},
		{copies[2], 3, 3, 0},
		{copies[3], 4, 4, 0},
		{copies[4], 7, 7, 1},
	}
	for i := range rows {
		rows[i].engines = engines[i]
	}
	return sevenWay(rows)
}

func h100Profiles() []Profile {
	return hopperWay([7]cut{
		{name: "1g.10gb", memoryMiB: 9984, sm: 16},
		{name: "1g.10gb+me", memoryMiB: 9984, sm: 16},
		{name: "1g.20gb", memoryMiB: 20096, sm: 26},
		{name: "2g.20gb", memoryMiB: 20096, sm: 32},
		{name: "3g.40gb", memoryMiB: 40448, sm: 60},
		{name: "4g.40gb", memoryMiB: 40448, sm: 64},
		{name: "7g.80gb", memoryMiB: 81152, sm: 132},
	}, [5]int{1, 2, 3, 4, 8})
}

// h100PCIeProfiles: as h100Profiles with 114 multiprocessors in all.
func h100PCIeProfiles() []Profile {
	out := h100Profiles()
	for i, sm := range [7]int{14, 14, 22, 30, 46, 62, 114} {
		out[i].Multiprocessors = sm
	}
	return out
}

func h200Profiles() []Profile {
	return hopperWay([7]cut{
		{name: "1g.18gb", memoryMiB: 16384, sm: 16},
		{name: "1g.18gb+me", memoryMiB: 16384, sm: 16},
		{name: "1g.35gb", memoryMiB: 33024, sm: 26},
		{name: "2g.35gb", memoryMiB: 33024, sm: 32},
		{name: "3g.71gb", memoryMiB: 71168, sm: 60},
		{name: "4g.71gb", memoryMiB: 71168, sm: 64},
		{name: "7g.141gb", memoryMiB: 143360, sm: 132},
	}, [5]int{1, 2, 3, 4, 8})
}

func b200Profiles() []Profile {
	return hopperWay([7]cut{
		{name: "1g.23gb", memoryMiB: 22528, sm: 18},
		{name: "1g.23gb+me", memoryMiB: 22528, sm: 18},
		{name: "1g.45gb", memoryMiB: 45312, sm: 30},
		{name: "2g.45gb", memoryMiB: 45312, sm: 36},
		{name: "3g.90gb", memoryMiB: 91136, sm: 70},
		{name: "4g.90gb", memoryMiB: 91136, sm: 72},
		{name: "7g.180gb", memoryMiB: 182272, sm: 148},
	}, [5]int{2, 4, 6, 8, 16})
}

// scaled returns the profiles of a GPU with 7 compute and 8 memory slices whose
// tables are not known in full: names and how many fit are NVIDIA's, memory is 95%
// of each share, and multiprocessors are those of like, whose engines it has too.
func scaled(like []Profile, totalMiB int64) []Profile {
	for i := range like {
		f := &like[i]
		f.MemoryMiB = totalMiB * int64(f.Size) / 8 * 95 / 100 / 128 * 128
		f.Name = ProfileName(f.Slices, f.MemoryMiB, totalMiB, f.Media())
	}
	return like
}

// rtxPro6000Profiles: 4 compute and 4 memory slices. It has profiles for graphics,
// with all of the media engines, and without any.
func rtxPro6000Profiles() []Profile {
	quarters, halves := []int{0, 1, 2, 3}, []int{0, 2}
	one := Profile{Slices: 1, Size: 1, Placements: quarters, MemoryMiB: 24192, Multiprocessors: 46, CopyEngines: 1}
	two := Profile{Slices: 2, Size: 2, Placements: halves, MemoryMiB: 48512, Multiprocessors: 94, CopyEngines: 2}
	four := Profile{Slices: 4, Size: 4, Placements: []int{0}, MemoryMiB: 97408, Multiprocessors: 188, CopyEngines: 4}
	row := func(p Profile, name string, id, most, media, ofa int) Profile {
		p.Name, p.ID, p.Max, p.OFA = name, id, most, ofa
		p.Decoders, p.Encoders, p.JPEG = media, media, media
		return p
	}
	return []Profile{
		row(one, "1g.24gb", 14, 4, 1, 0), row(one, "1g.24gb+gfx", 47, 4, 1, 0), row(one, "1g.24gb+me", 21, 1, 1, 1),
		row(one, "1g.24gb+me.all", 65, 1, 4, 1), row(one, "1g.24gb-me", 67, 4, 0, 0),
		row(two, "2g.48gb", 5, 2, 2, 0), row(two, "2g.48gb+gfx", 35, 2, 2, 0),
		row(two, "2g.48gb+me.all", 64, 1, 4, 1), row(two, "2g.48gb-me", 66, 2, 0, 0),
		row(four, "4g.96gb", 0, 1, 4, 1), row(four, "4g.96gb+gfx", 32, 1, 4, 1),
	}
}
