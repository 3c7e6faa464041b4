// Package mig says what has to be done to the GPUs of one node so that they are
// cut into MIG devices as a configuration asks. It is pure: it reads no file and
// touches no GPU, and it does not decide when; package mig of the agent does.
package mig

import (
	"slices"
	"strconv"
	"strings"

	"berth.dev/berth/core/gpu"
)

// MostDevices is the most MIG devices that a configuration may ask of one GPU. No GPU
// of today holds more than 7: what fits on one is for its layout to say, and this is
// the bound of what is laid out.
const MostDevices = 64

// Config is one named configuration: a list of entries, of which the last that
// covers a GPU holds for it.
type Config struct {
	Name    string
	Entries []Entry
}

// Entry is how some GPUs shall be.
type Entry struct {
	// Filter are PCI IDs of GPUs as NVIDIA's tools write them, such as
	// "0x20B010DE", case aside, perhaps with that of the board after a colon. Empty
	// is every GPU.
	Filter []string
	// All covers every GPU of Filter; else those with an index in Indexes or a UUID
	// in UUIDs.
	All     bool
	Indexes []int
	UUIDs   []string
	Enabled bool // MIG mode
	// Devices counts MIG devices by profile. Only with Enabled.
	Devices map[string]int
}

// profiles lists every device by its profile, in the order of names.
func (e Entry) profiles() []string {
	var out []string
	for name, n := range e.Devices {
		for range n {
			out = append(out, gpu.CanonicalProfile(name))
		}
	}
	slices.Sort(out)
	return out
}

// covers reports whether the entry is for g.
func (e Entry) covers(g GPU) bool {
	if !e.All && !slices.Contains(e.Indexes, g.Index) && !slices.ContainsFunc(e.UUIDs, func(u string) bool { return strings.EqualFold(u, g.UUID) }) {
		return false
	}
	return len(e.Filter) == 0 || slices.ContainsFunc(e.Filter, func(f string) bool { return matches(f, g) })
}

// GPU is what a plan needs to know of one GPU.
type GPU struct {
	gpu.GPU
	PCIID         uint32 // device in the upper half, vendor in the lower; 0 is unknown
	SubsystemID   uint32 // that of the board, in the same form; 0 is unknown
	Capable       bool   // has MIG
	Pending       bool   // its MIG mode changes at the next reset
	ComputeSlices int
	Profiles      []gpu.Profile // as the driver tells them; empty: those of the catalog
	Lost          bool
	// HeldBy names who uses the GPU or its MIG devices, such as
	// "pod team-a/train-0"; empty if none.
	HeldBy []string
}

// matches reports whether a filter such as "0x20B010DE" or "0x25B610DE:0x14A910DE"
// is for g: the part after the colon is the subsystem ID, that of the board. A GPU
// whose subsystem is unknown matches no filter that names one.
func matches(filter string, g GPU) bool {
	id, subsystem, named := strings.Cut(filter, ":")
	is := g.PCIID
	if is == 0 {
		p, _ := gpu.Find(g.Product)
		is = p.PCIID()
	}
	return is != 0 && number(id) == is && (!named || g.SubsystemID != 0 && number(subsystem) == g.SubsystemID)
}

// number reads a PCI ID; what is none is 0.
func number(id string) uint32 {
	n, err := strconv.ParseUint(id, 0, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// product returns what is needed to lay MIG devices out on g.
func product(g GPU) gpu.Product {
	p, _ := gpu.Find(g.Product)
	if len(g.Profiles) > 0 {
		p.Name, p.Profiles = g.Product, g.Profiles
		if g.ComputeSlices > 0 {
			p.ComputeSlices = g.ComputeSlices
		}
		p.MemorySlices = 0
		for _, f := range g.Profiles {
			p.MemorySlices = max(p.MemorySlices, f.Size)
		}
	}
	if p.Name == "" {
		p.Name = g.Product
	}
	return p
}
