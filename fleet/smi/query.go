package smi

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth.dev/berth/core/gpu"
)

// row is what one line of a query is about. Process is set for compute apps.
type row struct {
	view    View
	device  Device
	process Process
}

// field is one field of a query. value gives it without its unit; a value in
// brackets, such as notAvailable, takes none.
type field struct {
	name    string
	aliases []string
	unit    string // "" or one such as "MiB"
	value   func(row) string
}

const notAvailable = "[N/A]"

// format says what --format asks for.
type format struct{ header, units bool }

// gpuRows is one row for each GPU, appRows one for each process.
func gpuRows(v View) []row {
	var rows []row
	for _, d := range v.Devices {
		rows = append(rows, row{view: v, device: d})
	}
	return rows
}

func appRows(v View) []row {
	var rows []row
	for _, d := range v.Devices {
		for _, p := range d.Processes {
			rows = append(rows, row{view: v, device: d, process: p})
		}
	}
	return rows
}

// query answers --query-gpu and --query-compute-apps as CSV.
func query(ctx context.Context, c *call, o options, every time.Duration, known []field, rows func(View) []row) int {
	names := o["gpu"] + o["apps"]
	f, code := csvFormat(c, o)
	if code != exitOK {
		return code
	}
	fields, code := chosen(c, known, names)
	if code != exitOK {
		return code
	}
	return c.loop(ctx, o, every, 0, func(b *bytes.Buffer, v View, n int) int {
		if n == 0 && f.header {
			line(b, fields, func(f field) string {
				if f.unit == "" {
					return f.name
				}
				return f.name + " [" + f.unit + "]"
			})
		}
		for _, r := range rows(v) {
			line(b, fields, func(field field) string {
				value := field.value(r)
				if !f.units || field.unit == "" || strings.HasPrefix(value, "[") {
					return value
				}
				return value + " " + field.unit
			})
		}
		return exitOK
	})
}

func line(b *bytes.Buffer, fields []field, cell func(field) string) {
	for i, f := range fields {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(cell(f))
	}
	b.WriteByte('\n')
}

// csvFormat reads --format=csv[,noheader][,nounits].
func csvFormat(c *call, o options) (format, int) {
	if !o.has("format") {
		return format{}, c.usage(`"--format=" switch is missing. Please run 'nvidia-smi -h' for help.`, "add --format=csv")
	}
	f, csv := format{header: true, units: true}, false
	for word := range strings.SplitSeq(o["format"], ",") {
		switch strings.TrimSpace(word) {
		case "csv":
			csv = true
		case "noheader":
			f.header = false
		case "nounits":
			f.units = false
		default:
			return f, c.usage(fmt.Sprintf("Format %q is not valid.", word), "use csv, and with it noheader or nounits")
		}
	}
	if !csv {
		return f, c.usage(`"csv" is missing in "--format=".`, "use --format=csv,"+o["format"])
	}
	return f, exitOK
}

// chosen returns the fields that names lists with commas between.
func chosen(c *call, known []field, names string) ([]field, int) {
	var out []field
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		i := slices.IndexFunc(known, func(f field) bool { return f.name == name || slices.Contains(f.aliases, name) })
		if i >= 0 {
			out = append(out, known[i])
			continue
		}
		var all []string
		for _, f := range known {
			all = append(append(all, f.name), f.aliases...)
		}
		hint := "nvidia-smi --help-query-gpu and --help-query-compute-apps list the fields"
		if near := gpu.NearestWord(name, all); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return nil, c.usage(fmt.Sprintf("Field %q is not a valid field to query.\n", name), hint)
	}
	return out, exitOK
}

// fieldHelp lists the fields of --query-WHAT.
func fieldHelp(what string, known []field) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Fields of --query-%s:\n\n", what)
	for _, f := range known {
		b.WriteString(f.name)
		for _, a := range f.aliases {
			b.WriteString(" or " + a)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
