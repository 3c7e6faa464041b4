package hardware

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Scrape is what an exporter shows of whole GPUs: values by field, and by the UUID of the
// GPU. Series of MIG devices are not in it.
type Scrape map[string]map[string]float64

// blank is where the values begin by which DCGM says that it has none.
const blank = float64(1<<63 - 16)

// ReadScrape reads metrics in Prometheus' text format.
func ReadScrape(r io.Reader) (Scrape, error) {
	out := Scrape{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest, labeled := strings.Cut(line, "{")
		if !labeled {
			continue // of the exporter itself, not of a GPU
		}
		labels, rest, err := readLabels(rest)
		if err != nil {
			return nil, fmt.Errorf("read line %d of the metrics: %w: %s", n, err, line)
		}
		words := strings.Fields(rest)
		if len(words) == 0 {
			return nil, fmt.Errorf("read line %d of the metrics: it has no value: %s", n, line)
		}
		value, err := strconv.ParseFloat(words[0], 64)
		if err != nil {
			return nil, fmt.Errorf("read line %d of the metrics: %w", n, err)
		}
		uuid := labels["UUID"]
		if !strings.HasPrefix(name, "DCGM_") || uuid == "" || labels["GPU_I_ID"] != "" || math.IsNaN(value) || value >= blank {
			continue
		}
		if out[name] == nil {
			out[name] = map[string]float64{}
		}
		out[name][uuid] = value
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	return out, nil
}

// readLabels reads labels up to the closing brace, and gives what follows it.
func readLabels(s string) (labels map[string]string, rest string, err error) {
	labels = map[string]string{}
	for {
		s = strings.TrimLeft(s, ", ")
		if after, ok := strings.CutPrefix(s, "}"); ok {
			return labels, after, nil
		}
		name, after, ok := strings.Cut(s, "=")
		if !ok {
			return nil, "", fmt.Errorf("the labels do not end")
		}
		quoted, err := strconv.QuotedPrefix(after)
		if err != nil {
			return nil, "", fmt.Errorf("the value of label %s: %w", name, err)
		}
		if labels[name], err = strconv.Unquote(quoted); err != nil {
			return nil, "", fmt.Errorf("the value of label %s: %w", name, err)
		}
		s = after[len(quoted):]
	}
}

// tolerance is by how much a field may differ between two exporters that look at slightly
// different times: by this, or by a part of the greater value.
type tolerance struct{ may, per float64 }

// tolerances are those of fields that move while nothing runs; fields that are not here are
// counts and settings, which do not.
var tolerances = map[string]tolerance{
	"DCGM_FI_DEV_GPU_TEMP": {5, 0}, "DCGM_FI_DEV_MEMORY_TEMP": {5, 0},
	"DCGM_FI_DEV_POWER_USAGE": {30, 0.2}, "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": {1, 0}, "DCGM_FI_DEV_POWER_MGMT_LIMIT": {1, 0},
	"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": {1e6, 0.01}, // mJ since the driver was loaded
	"DCGM_FI_DEV_SM_CLOCK":                 {100, 0.5}, "DCGM_FI_DEV_MEM_CLOCK": {10, 0.5}, "DCGM_FI_DEV_VIDEO_CLOCK": {100, 0.5},
	"DCGM_FI_DEV_GPU_UTIL": {10, 0.1}, "DCGM_FI_DEV_MEM_COPY_UTIL": {10, 0.1}, "DCGM_FI_DEV_ENC_UTIL": {10, 0.1}, "DCGM_FI_DEV_DEC_UTIL": {10, 0.1},
	"DCGM_FI_DEV_FB_USED": {700, 0.1}, "DCGM_FI_DEV_FB_FREE": {700, 0.01}, "DCGM_FI_DEV_FB_RESERVED": {700, 0.1}, "DCGM_FI_DEV_FB_TOTAL": {1, 0},
	"DCGM_FI_DEV_FB_USED_PERCENT": {0.05, 0.1}, "DCGM_FI_DEV_FAN_SPEED": {10, 0.1},
}

// tolerated returns the tolerance of a field.
func tolerated(field string) tolerance {
	switch t, ok := tolerances[field]; {
	case ok:
		return t
	case strings.HasSuffix(field, "_ACTIVE"):
		return tolerance{0.1, 0.1} // parts of one
	case strings.HasSuffix(field, "_BYTES"), strings.Contains(field, "BANDWIDTH"), strings.Contains(field, "THROUGHPUT"):
		return tolerance{16 << 20, 0.5}
	case strings.HasSuffix(field, "_VIOLATION"):
		return tolerance{1e9, 0.01} // ns since the driver was loaded
	}
	return tolerance{}
}

// Comparison is what two exporters on one machine show.
type Comparison struct {
	Equal     []string // fields that both have, within their tolerance on every GPU
	Different []string // sentences: a field, a GPU and both values
	OnlyOurs  []string // fields
	OnlyDCGM  []string
}

// Compare holds our exporter beside dcgm-exporter. A field that one of them has for some GPU
// and the other for none is only one's; a GPU that only one has is a difference.
func Compare(ours, dcgm Scrape) Comparison {
	var c Comparison
	for _, field := range slices.Sorted(maps.Keys(ours)) {
		if dcgm[field] == nil {
			c.OnlyOurs = append(c.OnlyOurs, field)
			continue
		}
		if d := differences(field, ours[field], dcgm[field]); len(d) > 0 {
			c.Different = append(c.Different, d...)
		} else {
			c.Equal = append(c.Equal, field)
		}
	}
	for _, field := range slices.Sorted(maps.Keys(dcgm)) {
		if ours[field] == nil {
			c.OnlyDCGM = append(c.OnlyDCGM, field)
		}
	}
	return c
}

func differences(field string, ours, dcgm map[string]float64) (out []string) {
	uuids := maps.Clone(ours)
	maps.Copy(uuids, dcgm)
	t := tolerated(field)
	for _, uuid := range slices.Sorted(maps.Keys(uuids)) {
		a, our := ours[uuid]
		b, its := dcgm[uuid]
		switch {
		case !our:
			out = append(out, fmt.Sprintf("%s of %s: only dcgm-exporter has it, %v", field, uuid, b))
		case !its:
			out = append(out, fmt.Sprintf("%s of %s: only our exporter has it, %v", field, uuid, a))
		case math.Abs(a-b) > math.Max(t.may, t.per*math.Max(a, b)):
			out = append(out, fmt.Sprintf("%s of %s: %v, dcgm-exporter says %v; %v or %v%% would do", field, uuid, a, b, t.may, 100*t.per))
		}
	}
	return out
}
