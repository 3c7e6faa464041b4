package smi

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"berth.dev/berth/core/gpu"
)

// column is one column of dmon or pmon.
type column struct {
	name, unit string
	value      func(row) string
}

// cell is a column from the reading of the whole GPU.
func cell(name, unit string, f func(gpu.Reading) string) column {
	return column{name, unit, reading(f)}
}

// engine is a column of utilization; NVML gives none with MIG on.
func engine(name string, f func(gpu.Reading) float64) column {
	return column{name, "%", func(r row) string {
		if r.device.GPU.MIGEnabled {
			return "-"
		}
		return percent(f(r.device.Reading))
	}}
}

func dash(gpu.Reading) string    { return "-" }
func none(gpu.Reading) float64   { return 0 }
func nothing(gpu.Reading) string { return "0" }

// deviceColumns are the columns of dmon by the letters of its -s.
var deviceColumns = map[rune][]column{
	'p': {
		cell("pwr", "W", func(r gpu.Reading) string { return whole(r.PowerWatts) }),
		cell("gtemp", "C", func(r gpu.Reading) string { return strconv.Itoa(r.TemperatureCelsius) }),
		cell("mtemp", "C", func(r gpu.Reading) string { return strconv.Itoa(r.MemoryTempCelsius) }),
	},
	'u': {
		engine("sm", func(r gpu.Reading) float64 { return r.UtilizationRatio }),
		engine("mem", func(r gpu.Reading) float64 { return r.MemoryUtilization }),
		engine("enc", func(r gpu.Reading) float64 { return r.EncoderRatio }),
		engine("dec", func(r gpu.Reading) float64 { return r.DecoderRatio }),
		engine("jpg", none), engine("ofa", none),
	},
	'c': {
		cell("mclk", "MHz", func(r gpu.Reading) string { return strconv.Itoa(r.MemoryClockMHz) }),
		cell("pclk", "MHz", func(r gpu.Reading) string { return strconv.Itoa(r.SMClockMHz) }),
	},
	'v': {
		cell("pviol", "%", nothing),
		cell("tviol", "bool", func(r gpu.Reading) string {
			if r.ThermalThrottled {
				return "1"
			}
			return "0"
		}),
	},
	'm': {
		cell("fb", "MB", func(r gpu.Reading) string { return megabytes(r.MemoryUsedBytes) }),
		cell("bar1", "MB", nothing), cell("ccpm", "MB", nothing),
	},
	'e': {
		cell("sbecc", "errs", nothing),
		cell("dbecc", "errs", func(r gpu.Reading) string { return strconv.FormatInt(r.RemappedRows, 10) }),
		cell("pci", "errs", func(r gpu.Reading) string { return strconv.FormatInt(r.PCIeReplays, 10) }),
	},
	't': {
		cell("rxpci", "MB/s", func(r gpu.Reading) string { return whole(r.PCIeRxBytesPerSecond / 1e6) }),
		cell("txpci", "MB/s", func(r gpu.Reading) string { return whole(r.PCIeTxBytesPerSecond / 1e6) }),
	},
}

// processColumns are the columns of pmon by the letters of its -s.
var processColumns = map[rune][]column{
	'u': {
		{"sm", "%", func(r row) string { return percent(r.process.UtilizationRatio) }},
		cell("mem", "%", dash), cell("enc", "%", dash), cell("dec", "%", dash), cell("jpg", "%", dash), cell("ofa", "%", dash),
	},
	'm': {
		{"fb", "MB", func(r row) string { return megabytes(r.process.MemoryBytes) }},
		cell("ccpm", "MB", nothing),
	},
}

// monitorFlags are the options of dmon and pmon.
var monitorFlags = flagSet{
	"-h": {name: "help"}, "--help": {name: "help"},
	"-i": {name: "id", value: true}, "--id": {name: "id", value: true},
	"-s": {name: "select", value: true}, "--select": {name: "select", value: true},
	"-c": {name: "count", value: true}, "--count": {name: "count", value: true},
	"-d": {name: "delay", value: true}, "--delay": {name: "delay", value: true},
	"-o": {name: "options", value: true}, "--options": {name: "options", value: true},
}

// monitor is what dmon and pmon have in common: known columns, those of no -s,
// the headings before and after them, and the rows of a round.
type monitor struct {
	known         map[rune][]column
	usual         string
	before, after [2]string
	rows          func(b *bytes.Buffer, v View, columns []column, stamp string)
}

func dmon(ctx context.Context, c *call, args []string) int {
	return monitor{deviceColumns, "puc", [2]string{}, [2]string{}, deviceRows}.run(ctx, c, args)
}

func pmon(ctx context.Context, c *call, args []string) int {
	return monitor{
		processColumns, "u",
		[2]string{"         pid   type", "           #    C/G"},
		[2]string{"    command", "    name"},
		processRows,
	}.run(ctx, c, args)
}

func (m monitor) run(ctx context.Context, c *call, args []string) int {
	o, code := monitorFlags.parse(c, args)
	if code != exitOK {
		return code
	}
	if o.has("help") {
		return c.text(help)
	}
	letters := m.usual
	if o.has("select") {
		letters = o["select"]
	}
	var columns []column
	for _, l := range letters {
		if m.known[l] == nil {
			return c.usage(fmt.Sprintf("Invalid metric %q in -s %s.", l, letters), "the metrics are those of -h, each a letter, such as -s pu")
		}
		columns = append(columns, m.known[l]...)
	}
	count, delay := 0, 1
	if o.has("count") {
		if count, code = o.number(c, "count", 1, 1_000_000_000); code != exitOK {
			return code
		}
	}
	if o.has("delay") {
		if delay, code = o.number(c, "delay", 1, 600); code != exitOK {
			return code
		}
	}
	return c.loop(ctx, o, time.Duration(delay)*time.Second, count, func(b *bytes.Buffer, v View, n int) int {
		heads, units, stamp := "", "", ""
		for _, letter := range o["options"] {
			switch letter {
			case 'D':
				heads, units, stamp = heads+"#Date    ", units+"#YYYYMMDD", stamp+v.Now.Format(" 20060102")
			case 'T':
				heads, units, stamp = heads+" #Time    ", units+" HH:MM:SS ", stamp+v.Now.Format(" 15:04:05 ")
			default:
				return c.usage(fmt.Sprintf("Invalid option %q in -o.", letter), "use D for the date, T for the time, or DT")
			}
		}
		if n == 0 {
			heads, units = heads+"# gpu"+m.before[0], units+"# Idx"+m.before[1]
			for _, col := range columns {
				heads, units = heads+fmt.Sprintf("%7s", col.name), units+fmt.Sprintf("%7s", col.unit)
			}
			fmt.Fprintf(b, "%s%s \n%s%s \n", heads, m.after[0], units, m.after[1])
		}
		m.rows(b, v, columns, stamp)
		return exitOK
	})
}

func deviceRows(b *bytes.Buffer, v View, columns []column, stamp string) {
	for _, r := range gpuRows(v) {
		fmt.Fprintf(b, "%s%5d", stamp, r.device.GPU.Index)
		for _, col := range columns {
			fmt.Fprintf(b, "%7s", col.value(r))
		}
		b.WriteString(" \n")
	}
}

func processRows(b *bytes.Buffer, v View, columns []column, stamp string) {
	for _, d := range v.Devices {
		if len(d.Processes) == 0 {
			fmt.Fprintf(b, "%s%5d%11s%6s%s    %-15s\n", stamp, d.GPU.Index, "-", "-", strings.Repeat("      -", len(columns)), "-")
		}
		for _, p := range d.Processes {
			fmt.Fprintf(b, "%s%5d%11d%6s", stamp, d.GPU.Index, p.PID, kind(p))
			for _, col := range columns {
				fmt.Fprintf(b, "%7s", col.value(row{view: v, device: d, process: p}))
			}
			name := p.Name[strings.LastIndexByte(p.Name, '/')+1:]
			fmt.Fprintf(b, "    %-15.15s\n", name)
		}
	}
}
