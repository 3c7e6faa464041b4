package exporter_test

import (
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"berth.dev/berth/agent/exporter"
)

// TestTheDefaultMetricsAreDCGMExporters holds the scrape against a table of its own:
// what dcgm-exporter 4.x serves when nobody configures it, by type and unit. A name
// has DCGM_FI_ before it.
//
// Source: default-counters.csv of NVIDIA/dcgm-exporter.
func TestTheDefaultMetricsAreDCGMExporters(t *testing.T) {
	_, c := full(t)
	text, err := c.Scrape(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	families := parse(t, string(text))
	var names []string
	for _, group := range []struct {
		unit  string // as the help text has it; "" is a text without one
		kind  dto.MetricType
		names string
	}{
		{"(in MHz)", dto.MetricType_GAUGE, "DEV_MEM_CLOCK DEV_SM_CLOCK"},
		{"(in C)", dto.MetricType_GAUGE, "DEV_GPU_TEMP DEV_MEMORY_TEMP"},
		{"(in W)", dto.MetricType_GAUGE, "DEV_POWER_USAGE"},
		{"(in mJ)", dto.MetricType_COUNTER, "DEV_TOTAL_ENERGY_CONSUMPTION"},
		{"(in %)", dto.MetricType_GAUGE, "DEV_DEC_UTIL DEV_ENC_UTIL DEV_GPU_UTIL DEV_MEM_COPY_UTIL"},
		{"(in MiB)", dto.MetricType_GAUGE, "DEV_FB_FREE DEV_FB_RESERVED DEV_FB_USED"},
		{"in bytes per second", dto.MetricType_GAUGE, "PROF_PCIE_RX_BYTES PROF_PCIE_TX_BYTES"},
		{"Ratio of", dto.MetricType_GAUGE, "PROF_DRAM_ACTIVE PROF_GR_ENGINE_ACTIVE PROF_PIPE_TENSOR_ACTIVE"},
		{"", dto.MetricType_GAUGE, "DEV_ROW_REMAP_FAILURE DEV_VGPU_LICENSE_STATUS DEV_XID_ERRORS"},
		{"", dto.MetricType_COUNTER, "DEV_CORRECTABLE_REMAPPED_ROWS DEV_NVLINK_BANDWIDTH_TOTAL DEV_PCIE_REPLAY_COUNTER DEV_UNCORRECTABLE_REMAPPED_ROWS"},
	} {
		for short := range strings.FieldsSeq(group.names) {
			name := "DCGM_FI_" + short
			names = append(names, name)
			f := families[name]
			if f == nil {
				t.Errorf("the scrape lacks %s", name)
				continue
			}
			if f.GetType() != group.kind || !strings.Contains(f.GetHelp(), group.unit) || f.GetHelp() == "" {
				t.Errorf("%s is a %s of %q, want a %s %s", name, f.GetType(), f.GetHelp(), group.kind, group.unit)
			}
		}
	}
	slices.Sort(names)
	if got := slices.Sorted(slices.Values(new(exporter.Fields).Names())); !slices.Equal(got, names) {
		t.Errorf("by default there are %v, want %v", got, names)
	}
	for name := range families {
		if strings.HasPrefix(name, "DCGM_FI_") && !slices.Contains(names, name) {
			t.Errorf("%s is in the scrape, and none of the default metrics", name)
		}
	}
}
