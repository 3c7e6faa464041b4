package smi

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth.dev/berth/core/gpu"
)

// section is one group of -q: its type for -d, its title, and its entries.
type section struct {
	display, title string
	entries        func(row) [][2]string
}

// sections are the groups of -q, in its order. The first, without a type, is
// shown only without -d.
var sections = []section{
	{"", "", func(r row) [][2]string {
		return [][2]string{
			{"Product Name", r.device.GPU.Product},
			{"Product Architecture", title(product(r).Family)},
			{"Persistence Mode", "Enabled"},
			{"GPU UUID", r.device.GPU.UUID},
			{"Bus Id", r.device.GPU.BusID},
			{"MIG Mode", migMode(r.device.GPU)},
			{"Fan Speed", fan(r.device)},
		}
	}},
	{"PERFORMANCE", "Performance", func(r row) [][2]string {
		return [][2]string{
			{"Performance State", pstate(r.device)},
			{"Idle", active(r.device.Reading.UtilizationRatio == 0)},
			{"HW Thermal Slowdown", active(r.device.Reading.ThermalThrottled)},
		}
	}},
	{"MEMORY", "FB Memory Usage", fromFields("Total", "memory.total", "Reserved", "memory.reserved", "Used", "memory.used", "Free", "memory.free")},
	{"COMPUTE", "Compute", fromFields("Compute Mode", "compute_mode")},
	{"UTILIZATION", "Utilization", fromFields("GPU", "utilization.gpu", "Memory", "utilization.memory", "Encoder", "utilization.encoder", "Decoder", "utilization.decoder")},
	{"ECC", "ECC Errors", fromFields("ECC Mode", "ecc.mode.current", "Corrected", "ecc.errors.corrected.volatile.total", "Uncorrected", "ecc.errors.uncorrected.volatile.total")},
	{"ROW_REMAPPER", "Remapped Rows", fromFields("Correctable Error", "remapped_rows.correctable", "Uncorrectable Error", "remapped_rows.uncorrectable", "Remapping Failure Occurred", "remapped_rows.failure")},
	{"TEMPERATURE", "Temperature", func(r row) [][2]string {
		return [][2]string{
			{"GPU Current Temp", strconv.Itoa(r.device.Reading.TemperatureCelsius) + " C"},
			{"Memory Current Temp", strconv.Itoa(r.device.Reading.MemoryTempCelsius) + " C"},
		}
	}},
	{"POWER", "GPU Power Readings", fromFields("Power Draw", "power.draw", "Current Power Limit", "power.limit", "Default Power Limit", "power.default_limit")},
	{"CLOCK", "Clocks", fromFields("Graphics", "clocks.current.graphics", "SM", "clocks.current.sm", "Memory", "clocks.current.memory")},
	{"PIDS", "Processes", func(r row) [][2]string {
		var out [][2]string
		for _, p := range r.device.Processes {
			out = append(out, [2]string{"Process ID", strconv.Itoa(p.PID)}, [2]string{"    Type", kind(p)},
				[2]string{"    Name", p.Name}, [2]string{"    Used GPU Memory", megabytes(p.MemoryBytes) + " MiB"})
		}
		if out == nil {
			return [][2]string{{"Process ID", "None"}}
		}
		return out
	}},
}

// title is a family as -q writes it: "ada-lovelace" is "Ada Lovelace".
func title(family string) string {
	words := strings.Split(family, "-")
	for i, w := range words {
		if w != "" {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, " ")
}

// fromFields makes entries of pairs: a label and a field of --query-gpu.
func fromFields(pairs ...string) func(row) [][2]string {
	return func(r row) [][2]string {
		var out [][2]string
		for i := 0; i < len(pairs); i += 2 {
			f := gpuFields[slices.IndexFunc(gpuFields, func(f field) bool { return f.name == pairs[i+1] })]
			value := f.value(r)
			if value == notAvailable {
				value = "N/A"
			} else if f.unit != "" {
				value += " " + f.unit
			}
			out = append(out, [2]string{pairs[i], value})
		}
		return out
	}
}

// report answers -q, of which display names the types that are wanted; "" is
// all.
func report(c *call, b *bytes.Buffer, v View, display string) int {
	wanted, code := displays(c, display)
	if code != exitOK {
		return code
	}
	b.WriteString("\n==============NVSMI LOG==============\n\n")
	entry(b, 0, "Timestamp", v.Now.Format("Mon Jan _2 15:04:05 2006"))
	entry(b, 0, "Driver Version", v.Driver)
	entry(b, 0, "CUDA Version", v.CUDA)
	b.WriteByte('\n')
	entry(b, 0, "Attached GPUs", strconv.Itoa(len(v.Devices)))
	for _, d := range v.Devices {
		fmt.Fprintf(b, "GPU %s\n", d.GPU.BusID)
		r := row{view: v, device: d}
		for _, s := range sections {
			if wanted != nil && !slices.Contains(wanted, s.display) {
				continue
			}
			indent := 4
			if s.title != "" {
				fmt.Fprintf(b, "    %s\n", s.title)
				indent = 8
			}
			for _, e := range s.entries(r) {
				entry(b, indent, e[0], e[1])
			}
		}
		b.WriteByte('\n')
	}
	b.WriteString(footer(v))
	return exitOK
}

func entry(b *bytes.Buffer, indent int, label, value string) {
	fmt.Fprintf(b, "%-50s: %s\n", strings.Repeat(" ", indent)+label, value)
}

// displays reads the types of -d; nil is all.
func displays(c *call, display string) ([]string, int) {
	if display == "" {
		return nil, exitOK
	}
	var known []string
	for _, s := range sections[1:] {
		known = append(known, s.display)
	}
	var wanted []string
	for word := range strings.SplitSeq(strings.ToUpper(display), ",") {
		if !slices.Contains(known, word) {
			return nil, c.usage(fmt.Sprintf("Display type %q is not valid.", word),
				fmt.Sprintf("did you mean %s? the types are %s", gpu.NearestWord(word, known), strings.Join(known, ", ")))
		}
		wanted = append(wanted, word)
	}
	return wanted, exitOK
}
