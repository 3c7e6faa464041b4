package smi

import (
	"bytes"
	"fmt"
	"strings"

	"berth.dev/berth/core/gpu"
)

const (
	mib = 1 << 20
	// inner is the width of the table between its outer borders.
	inner = 89
)

var (
	border = "+" + strings.Repeat("-", inner) + "+\n"
	gap    = strings.Repeat(" ", inner+2) + "\n"
	// The three columns of the summary are 41, 24 and 22 wide.
	summaryRule = rule("+-++", 41, 24, 22) //nolint:gochecknoglobals // a constant, if it could be
)

// rule draws a line of columns: ends and fill and joint and end.
func rule(shape string, widths ...int) string {
	var cells []string
	for _, w := range widths {
		cells = append(cells, strings.Repeat(shape[1:2], w))
	}
	return shape[:1] + strings.Join(cells, shape[2:3]) + shape[3:] + "\n"
}

// table answers nvidia-smi without options, in the layout of the 555 to 580
// drivers.
func table(b *bytes.Buffer, v View) {
	b.WriteString(v.Now.Format("Mon Jan _2 15:04:05 2006") + "       \n")
	b.WriteString(border)
	fmt.Fprintf(b, "| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %-8s |\n", v.Driver, v.Driver, v.CUDA)
	b.WriteString(rule("|-++", 41, 24, 22))
	b.WriteString("| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n")
	b.WriteString("| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n")
	b.WriteString("|                                         |                        |               MIG M. |\n")
	b.WriteString(rule("|=+|", 41, 24, 22))
	for _, d := range v.Devices {
		summary(b, d)
	}
	migTable(b, v)
	processTable(b, v)
	b.WriteString(footer(v))
}

// summary is the three lines of one GPU.
func summary(b *bytes.Buffer, d Device) {
	r := d.Reading
	name := d.GPU.Product
	if len(name) > 27 {
		name = name[:24] + "..."
	}
	ecc, utilization := uncorrected(d), percent(r.UtilizationRatio)+"%"
	if d.GPU.MIGEnabled {
		ecc, utilization = "On", "N/A"
	}
	fmt.Fprintf(b, "| %3d  %-27s    %-3s | %18s %3s | %20s |\n", d.GPU.Index, name, "On", d.GPU.BusID, "Off", ecc)
	fmt.Fprintf(b, "|%4s %4dC    %-2s%15sW / %4sW |%8dMiB / %6dMiB |%8s%13s |\n",
		fan(d), r.TemperatureCelsius, pstate(d), whole(r.PowerWatts), whole(r.PowerLimitWatts),
		r.MemoryUsedBytes/mib, d.GPU.MemoryBytes/mib, utilization, "Default")
	fmt.Fprintf(b, "|%41s|%24s| %20s |\n", "", "", migMode(d.GPU))
	b.WriteString(summaryRule)
}

// geforce reports whether the GPU is a consumer's, with a fan of its own.
func geforce(d Device) bool { return strings.Contains(d.GPU.Product, "GeForce") }

func fan(d Device) string {
	if geforce(d) {
		return "30%"
	}
	return "N/A"
}

// uncorrected is the number of uncorrected memory errors since the driver was
// loaded, or that error correction is off: those that remapping rows shows.
func uncorrected(d Device) string {
	if geforce(d) {
		return "Off"
	}
	return fmt.Sprint(d.Reading.RemappedRows)
}

// pstate is P0 when the memory runs at its full clock, and P8 when it does not.
func pstate(d Device) string {
	if p, ok := gpu.Find(d.GPU.Product); ok && d.Reading.MemoryClockMHz < p.MaxMemoryClockMHz {
		return "P8"
	}
	return "P0"
}

// migMode is "N/A" for a product that has no MIG.
func migMode(g gpu.GPU) string {
	p, _ := gpu.Find(g.Product)
	switch {
	case g.MIGEnabled:
		return "Enabled"
	case p.ComputeSlices > 0:
		return "Disabled"
	}
	return "N/A"
}

func whole(x float64) string { return fmt.Sprintf("%.0f", x) }

// percent is a ratio in whole percent.
func percent(ratio float64) string { return whole(100 * ratio) }
