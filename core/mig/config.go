// Package mig says what has to be done to the GPUs of one node so that they are
// cut into MIG devices as a configuration asks. It is pure: it reads no file and
// touches no GPU, and it does not decide when; package mig of the agent does.
package mig

import (
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/core/gpu"
)

// Config is one named configuration: a list of entries, of which the last that
// covers a GPU holds for it.
type Config struct {
	Name    string
	Entries []Entry
}

// Entry is how some GPUs shall be.
type Entry struct {
	// Filter are PCI IDs of GPUs as NVIDIA's tools write them, such as
	// "0x20B010DE", case aside. Empty is every GPU.
	Filter []string
	// All covers every GPU of Filter; else those with an index in Indexes.
	All     bool
	Indexes []int
	Enabled bool // MIG mode
	// Devices counts MIG devices by profile. Only with Enabled.
	Devices map[string]int
}

// profiles lists every device by its profile, in the order of names.
func (e Entry) profiles() []string {
	var out []string
	for name, n := range e.Devices {
		for range n {
			out = append(out, strings.Replace(name, ".me", "+me", 1))
		}
	}
	slices.Sort(out)
	return out
}

// covers says whether the entry is for g.
func (e Entry) covers(g GPU) bool {
	if !e.All && !slices.Contains(e.Indexes, g.Index) {
		return false
	}
	id := pciID(g)
	return len(e.Filter) == 0 || slices.ContainsFunc(e.Filter, func(f string) bool { return strings.EqualFold(f, id) })
}

// GPU is what a plan needs to know of one GPU.
type GPU struct {
	gpu.GPU
	PCIID         uint32 // device in the upper half, vendor in the lower; 0 is unknown
	Capable       bool   // has MIG
	Pending       bool   // its MIG mode changes at the next reset
	ComputeSlices int
	Profiles      []gpu.Profile // as the driver tells them; empty: those of the catalogue
	Lost          bool
	// HeldBy names who uses the GPU or its MIG devices, such as
	// "pod team-a/train-0"; empty is nobody.
	HeldBy []string
}

// knownIDs are the PCI IDs of products, for drivers that do not tell them and
// for GPUs that do not exist.
//
// Source: the PCI ID repository, vendor 10de.
var knownIDs = map[string]uint32{
	"NVIDIA A100-SXM4-40GB": 0x20B010DE,
	"NVIDIA A100-PCIE-40GB": 0x20F110DE,
	"NVIDIA A100-SXM4-80GB": 0x20B210DE,
	"NVIDIA A100 80GB PCIe": 0x20B510DE,
	"NVIDIA A30":            0x20B710DE,
	"NVIDIA H100 80GB HBM3": 0x233010DE,
	"NVIDIA H100 PCIe":      0x233110DE,
	"NVIDIA H100 NVL":       0x232110DE,
	"NVIDIA H200":           0x233510DE,
	"NVIDIA H200 NVL":       0x233B10DE,
	"NVIDIA B200":           0x290110DE,
}

// pciID gives the ID of a GPU in the form of a filter; "" is unknown.
func pciID(g GPU) string {
	id := g.PCIID
	if id == 0 {
		id = knownIDs[g.Product]
	}
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("0x%08X", id)
}

// product gives what is needed to lay MIG devices out on g.
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
