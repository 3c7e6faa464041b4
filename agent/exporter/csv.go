package exporter

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/gpu"
)

// Fields is which fields of DCGM to write, in which order, with which type and
// help. The zero value is dcgm-exporter's default set.
type Fields struct {
	chosen []field // nil is the default
	driver bool    // the label DCGM_FI_DRIVER_VERSION

	measures []nvml.Measure // of the chosen
}

func (f *Fields) list() (list []field, driver bool) {
	if f.chosen == nil {
		return fields, true
	}
	return f.chosen, f.driver
}

// choose adds a field, and the measure that it is made of.
func (f *Fields) choose(one field) {
	if one.measure != "" {
		if one.at = slices.Index(f.measures, one.measure); one.at < 0 {
			one.at = len(f.measures)
			f.measures = append(f.measures, one.measure)
		}
	}
	f.chosen = append(f.chosen, one)
}

// Measures is what has to be read for the fields beyond a Reading: Device.More is in
// this order.
func (f *Fields) Measures() []nvml.Measure { return f.measures }

// Names lists the fields that are written, in order.
func (f *Fields) Names() []string {
	list, _ := f.list()
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].name
	}
	return out
}

// always are metrics of dcgm-exporter that are written whether asked for or not.
var always = []string{"DCGM_EXP_XID_ERRORS_COUNT", "DCGM_EXP_XID_ERRORS_TOTAL"}

// driverVersion is the one label field.
const driverVersion = "DCGM_FI_DRIVER_VERSION"

// Why a line of a file of fields gives no series; the label reason of
// berth_metrics_file_lines_left_out.
const (
	LeftOutUnread  = "unread"  // the file cannot be read, or has no line that can be served
	LeftOutWrong   = "wrong"   // not FIELD, gauge|counter|label, help; or a field given twice
	LeftOutUnknown = "unknown" // not a field of DCGM's that Berth knows
	LeftOutDCGM    = "dcgm"    // a field of DCGM's that Berth does not serve
)

// Fault is a line of a file of fields that gives no series.
type Fault struct {
	Reason string // one of the LeftOut constants
	Text   string // "FILE:LINE: ..." and what to do
}

// ParseFields reads a file of fields as dcgm-exporter takes it, which name is for
// messages: lines of FIELD, gauge|counter|label, help; # begins a comment. A line
// that cannot be served is left out, and is among the faults; it costs no other. A
// file without any line that can be served gives the default set, and is a fault too.
func ParseFields(name string, data []byte) (Fields, []Fault) {
	out := Fields{chosen: []field{}}
	var faults []Fault
	seen := map[string]int{}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		record, err := readLine(line)
		if err == nil && len(record) == 0 {
			continue
		}
		var f field
		reason := LeftOutWrong
		if err == nil {
			f, reason, err = parseField(record)
		}
		if err == nil && seen[f.name] > 0 {
			reason, err = LeftOutWrong, fmt.Errorf("%s is already on line %d; remove one of them", f.name, seen[f.name])
		}
		switch {
		case err != nil:
			faults = append(faults, Fault{reason, fmt.Sprintf("%s:%d: %v", name, number, err)})
			continue
		case f.name == driverVersion:
			out.driver = true
		case !slices.Contains(always, f.name):
			out.choose(f)
		}
		seen[f.name] = number
	}
	if len(out.chosen) == 0 {
		return Fields{}, append(faults, Fault{LeftOutUnread, name + ": no field can be served, so the default set is served; remove the file if you want that"})
	}
	return out, faults
}

// readLine returns the columns of a line; none of a comment or a blank line.
func readLine(line string) ([]string, error) {
	r := csv.NewReader(strings.NewReader(line))
	r.Comment, r.TrimLeadingSpace, r.FieldsPerRecord, r.LazyQuotes = '#', true, -1, true
	record, err := r.Read()
	switch {
	case errors.Is(err, io.EOF), len(record) == 1 && strings.TrimSpace(record[0]) == "":
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("not a line of comma-separated values: %w", err)
	}
	return record, nil
}

// parseField reads one line.
func parseField(record []string) (f field, reason string, err error) {
	if len(record) < 3 {
		return f, LeftOutWrong, fmt.Errorf("%d columns of three: FIELD, gauge|counter|label, help", len(record))
	}
	name, kind := strings.TrimSpace(record[0]), strings.TrimSpace(record[1])
	f.name = name
	if why, ok := elsewhere[name]; ok {
		return f, LeftOutDCGM, fmt.Errorf("%s is omitted: %s", name, why)
	}
	if kind != "gauge" && kind != "counter" && kind != "label" {
		return f, LeftOutWrong, fmt.Errorf("%s has the type %q; write gauge, counter or label", name, kind)
	}
	if !slices.Contains(known(), name) {
		if near := gpu.NearestWord(name, known()); near != "" {
			return f, LeftOutUnknown, fmt.Errorf("%s is not a field of DCGM's that Berth knows; did you mean %s?", name, near)
		}
		return f, LeftOutUnknown, fmt.Errorf("%s is not a field of DCGM's that Berth knows; remove the line", name)
	}
	if name == driverVersion {
		if kind != "label" {
			return f, LeftOutWrong, fmt.Errorf("%s is text; write label as its type", name)
		}
		return f, "", nil
	}
	if kind == "label" {
		return f, LeftOutWrong, fmt.Errorf("%s cannot be a label: only %s can", name, driverVersion)
	}
	for _, list := range [][]field{fields, optional, measured} {
		if i := slices.IndexFunc(list, func(f field) bool { return f.name == name }); i >= 0 {
			f = list[i]
			f.kind, f.help = kind, strings.TrimSpace(strings.Join(record[2:], ","))
		}
	}
	return f, "", nil
}

func known() []string {
	out := append(slices.Clone(always), driverVersion)
	for _, list := range [][]field{fields, optional, measured} {
		for i := range list {
			out = append(out, list[i].name)
		}
	}
	return out
}
