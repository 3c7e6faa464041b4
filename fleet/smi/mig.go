package smi

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth.dev/berth/core/gpu"
)

var migFlags = flagSet{
	"-h": {name: "help"}, "--help": {name: "help"},
	"-i": {name: "id", value: true}, "--id": {name: "id", value: true},
	"-lgip": {name: "profiles"}, "--list-gpu-instance-profiles": {name: "profiles"},
	"-lgipp": {name: "placements"}, "--list-gpu-instance-possible-placements": {name: "placements"},
	"-lgi": {name: "instances"}, "--list-gpu-instances": {name: "instances"},
	"-lci": {name: "compute"}, "--list-compute-instances": {name: "compute"},
}

func mig(ctx context.Context, c *call, args []string) int {
	o, code := migFlags.parse(c, args)
	if code != exitOK {
		return code
	}
	if o.has("help") || len(o) == 0 {
		return c.text(help)
	}
	return c.loop(ctx, o, 0, 1, func(b *bytes.Buffer, v View, _ int) int {
		var on []Device
		for _, d := range v.Devices {
			p, _ := gpu.Find(d.GPU.Product)
			if len(p.Profiles) > 0 && (d.GPU.MIGEnabled || o.has("placements")) {
				on = append(on, d)
			}
		}
		switch {
		case len(on) == 0:
			b.WriteString("No MIG-enabled devices found.\n")
			return exitNone
		case o.has("profiles"):
			profiles(b, on)
		case o.has("placements"):
			placements(b, on)
		case o.has("instances"):
			return instances(b, on)
		default:
			return computeInstances(b, on)
		}
		return exitOK
	})
}

// profiles answers -lgip: each profile, and how many more of it fit now.
func profiles(b *bytes.Buffer, devices []Device) {
	frame := "+" + strings.Repeat("-", 77) + "+\n"
	b.WriteString(frame)
	b.WriteString("| GPU instance profiles:                                                      |\n")
	b.WriteString("| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |\n")
	b.WriteString("|                              Free/Total   GiB              CE    JPEG  OFA  |\n")
	b.WriteString(rule("|=+|", 77))
	for _, d := range devices {
		product, _ := gpu.Find(d.GPU.Product)
		for _, p := range product.Profiles {
			fmt.Fprintf(b, "|%4d  %-16s%4d%8s%12s%9s%7d%6d%6d   |\n", d.GPU.Index, "MIG "+p.Name, p.ID,
				fmt.Sprintf("%d/%d", fits(product, p, d.GPU.MIG), p.Max), gib(p.MemoryMiB), "No", p.Multiprocessors, p.Decoders, p.Encoders)
			fmt.Fprintf(b, "|%62d%6d%6d   |\n", p.CopyEngines, p.JPEG, p.OFA)
			b.WriteString(frame)
		}
	}
}

func gib(memoryMiB int64) string { return strconv.FormatFloat(float64(memoryMiB)/1024, 'f', 2, 64) }

// fits is how many more MIG devices of profile p the GPU could hold beside
// those it has.
func fits(product gpu.Product, p gpu.Profile, have []gpu.MIGDevice) int {
	free, left, same, media := 0, product.ComputeSlices, 0, p.MediaUnits()
	for _, m := range have {
		left -= m.Slices
		h, _ := product.Profile(m.Profile)
		media += h.MediaUnits()
		if m.Profile == p.Name {
			same++
		}
	}
	for _, start := range p.Placements {
		taken := slices.ContainsFunc(have, func(m gpu.MIGDevice) bool {
			h, _ := product.Profile(m.Profile)
			return m.Start < start+p.Size && start < m.Start+h.Size
		})
		if !taken {
			free++
		}
	}
	if media > gpu.MediaUnitsMost {
		return 0
	}
	return max(0, min(free, left/p.Slices, p.Max-same))
}

// placements answers -lgipp.
func placements(b *bytes.Buffer, devices []Device) {
	for _, d := range devices {
		product, _ := gpu.Find(d.GPU.Product)
		units := max(1, product.SliceUnits)
		for _, p := range product.Profiles {
			word := "Placements:"
			if len(p.Placements) == 1 {
				word = "Placement :"
			}
			var starts []string
			for _, s := range p.Placements {
				starts = append(starts, strconv.Itoa(s*units))
			}
			fmt.Fprintf(b, "GPU %2d Profile ID %2d %s {%s}:%d\n", d.GPU.Index, p.ID, word, strings.Join(starts, ","), p.Size*units)
		}
	}
}

// instances answers -lgi.
func instances(b *bytes.Buffer, devices []Device) int {
	frame := "+" + strings.Repeat("-", 57) + "+\n"
	rows := 0
	for _, d := range devices {
		product, _ := gpu.Find(d.GPU.Product)
		for _, m := range d.GPU.MIG {
			if rows == 0 {
				b.WriteString(frame)
				b.WriteString("| GPU instances:                                          |\n")
				b.WriteString("| GPU   Name               Profile  Instance   Placement  |\n")
				b.WriteString("|                            ID       ID       Start:Size |\n")
				b.WriteString(rule("|=+|", 57))
			}
			rows++
			p, _ := product.Profile(m.Profile)
			units := max(1, product.SliceUnits)
			fmt.Fprintf(b, "|%4d  %-18s%6d%9d%13s     |\n", d.GPU.Index, "MIG "+m.Profile, p.ID, m.GI, fmt.Sprintf("%d:%d", m.Start*units, p.Size*units))
			b.WriteString(frame)
		}
	}
	if rows == 0 {
		b.WriteString("No GPU instances found: Not Found\n")
		return exitNone
	}
	return exitOK
}

// computeInstances answers -lci. Every GPU instance has one, of its full size.
func computeInstances(b *bytes.Buffer, devices []Device) int {
	frame := "+" + strings.Repeat("-", 68) + "+\n"
	rows := 0
	for _, d := range devices {
		for _, m := range d.GPU.MIG {
			if rows == 0 {
				b.WriteString(frame)
				b.WriteString("| Compute instances:                                                 |\n")
				b.WriteString("| GPU     GPU       Name             Profile   Instance   Placement  |\n")
				b.WriteString("|       Instance                       ID        ID       Start:Size |\n")
				b.WriteString("|         ID                                                         |\n")
				b.WriteString(rule("|=+|", 68))
			}
			rows++
			fmt.Fprintf(b, "|%4d%8d       %-18s%5d%10d%11s     |\n", d.GPU.Index, m.GI, "MIG "+m.Profile, m.Slices-1, m.CI, fmt.Sprintf("0:%d", m.Slices))
			b.WriteString(frame)
		}
	}
	if rows == 0 {
		b.WriteString("No compute instances found: Not Found\n")
		return exitNone
	}
	return exitOK
}
