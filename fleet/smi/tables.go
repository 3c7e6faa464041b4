package smi

import (
	"bytes"
	"fmt"
	"strconv"

	"berth.dev/berth/core/gpu"
)

// barShare is how much of a MIG device's memory its PCI window covers: about
// what A100 and H100 show.
const barShare = 0.61

// migTable is the second table: the MIG devices, if a GPU has MIG on.
func migTable(b *bytes.Buffer, v View) {
	rows := 0
	for _, d := range v.Devices {
		p, _ := gpu.Find(d.GPU.Product)
		for i, m := range d.GPU.MIG {
			if rows == 0 {
				b.WriteString(gap + border)
				b.WriteString("| MIG devices:                                                                            |\n")
				b.WriteString(rule("+-++", 18, 34, 11, 23))
				b.WriteString("| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |\n")
				b.WriteString("|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |\n")
				b.WriteString("|                  |                                  |        ECC|                       |\n")
				b.WriteString(rule("|=+|", 18, 34, 11, 23))
			}
			rows++
			profile, _ := p.Profile(m.Profile)
			memory := fmt.Sprintf("%dMiB / %5dMiB", d.MIG[m.UUID].MemoryUsedBytes/mib, m.MemoryBytes/mib)
			bar := fmt.Sprintf("0MiB / %5dMiB", int64(barShare*float64(m.MemoryBytes))/mib)
			fmt.Fprintf(b, "|%3d %4d %3d %3d  |%30s    |%3d %6d |%3d %3d %4d %4d %4d |\n",
				d.GPU.Index, m.GI, m.CI, i, memory, profile.Multiprocessors, 0,
				profile.CopyEngines, profile.Encoders, profile.Decoders, profile.OFA, profile.JPEG)
			fmt.Fprintf(b, "|%18s|%30s    |%11s|%23s|\n", "", bar, "", "")
			b.WriteString(rule("+-++", 18, 34, 11, 23))
		}
	}
	if rows > 0 {
		return
	}
	for _, d := range v.Devices {
		if d.GPU.MIGEnabled {
			b.WriteString(gap + border)
			fmt.Fprintf(b, "| %-87s |\n", "MIG devices:")
			b.WriteString(rule("|=+|", inner))
			fmt.Fprintf(b, "|  %-86s |\n", "No MIG devices found")
			b.WriteString(border)
			return
		}
	}
}

// processTable is the last table: what runs on the GPUs.
func processTable(b *bytes.Buffer, v View) {
	b.WriteString(gap + border)
	b.WriteString("| Processes:                                                                              |\n")
	b.WriteString("|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n")
	b.WriteString("|        ID   ID                                                               Usage      |\n")
	b.WriteString(rule("|=+|", inner))
	rows := 0
	for _, d := range v.Devices {
		for _, p := range d.Processes {
			gi, ci := instance(d, p.MIG)
			name := p.Name
			if over := len(name) - 35; over > 0 {
				name = "..." + name[over+3:]
			}
			fmt.Fprintf(b, "|%5d  %4s %4s%16d%7s   %-36s%7dMiB |\n",
				d.GPU.Index, gi, ci, p.PID, kind(p), name, p.MemoryBytes/mib)
			rows++
		}
	}
	if rows == 0 {
		fmt.Fprintf(b, "|  %-86s |\n", "No running processes found")
	}
	b.WriteString(border)
}

// instance returns the GPU and compute instance of a MIG device of d.
func instance(d Device, mig string) (gi, ci string) {
	for _, m := range d.GPU.MIG {
		if mig != "" && m.UUID == mig {
			return strconv.Itoa(m.GI), strconv.Itoa(m.CI)
		}
	}
	return "N/A", "N/A"
}

func kind(p Process) string {
	if p.Type == "" {
		return "C"
	}
	return p.Type
}
