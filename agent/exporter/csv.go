package exporter

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"berth.dev/berth/core/gpu"
)

// Fields is which fields of DCGM to write, in which order, with which type and
// help. The zero value is dcgm-exporter's default set.
type Fields struct {
	chosen []field // nil is the default
	driver bool    // the label DCGM_FI_DRIVER_VERSION
}

func (f *Fields) list() (list []field, driver bool) {
	if f.chosen == nil {
		return fields, true
	}
	return f.chosen, f.driver
}

// Names lists the fields that are written, in order.
func (f *Fields) Names() []string {
	list, _ := f.list()
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].name
	}
	return out
}

// elsewhere are fields of the files that dcgm-exporter ships, or that are commonly
// added to them, which NVML does not give or Berth does not write.
var elsewhere = []string{
	"DCGM_FI_DEV_BRAND", "DCGM_FI_DEV_SERIAL", "DCGM_FI_DEV_NAME", "DCGM_FI_DEV_MINOR_NUMBER", "DCGM_FI_DEV_OEM_INFOROM_VER", "DCGM_FI_DEV_ECC_INFOROM_VER",
	"DCGM_FI_DEV_POWER_INFOROM_VER", "DCGM_FI_DEV_INFOROM_IMAGE_VER", "DCGM_FI_DEV_VBIOS_VERSION", "DCGM_FI_NVML_VERSION", "DCGM_FI_PROCESS_NAME",
	"DCGM_FI_CUDA_DRIVER_VERSION", "DCGM_FI_DEV_CUDA_COMPUTE_CAPABILITY", "DCGM_FI_DEV_VGPU_DRIVER_VERSION",
	"DCGM_FI_DEV_VIDEO_CLOCK", "DCGM_FI_DEV_APP_SM_CLOCK", "DCGM_FI_DEV_APP_MEM_CLOCK", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
	"DCGM_FI_DEV_GPU_MAX_OP_TEMP", "DCGM_FI_DEV_SLOWDOWN_TEMP", "DCGM_FI_DEV_FAN_SPEED", "DCGM_FI_DEV_PSTATE", "DCGM_FI_DEV_POWER_USAGE_INSTANT",
	"DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "DCGM_FI_DEV_PCIE_TX_THROUGHPUT", "DCGM_FI_DEV_PCIE_RX_THROUGHPUT", "DCGM_FI_DEV_PCIE_LINK_GEN", "DCGM_FI_DEV_PCIE_LINK_WIDTH",
	"DCGM_FI_DEV_POWER_VIOLATION", "DCGM_FI_DEV_THERMAL_VIOLATION", "DCGM_FI_DEV_SYNC_BOOST_VIOLATION", "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION",
	"DCGM_FI_DEV_LOW_UTIL_VIOLATION", "DCGM_FI_DEV_RELIABILITY_VIOLATION",
	"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "DCGM_FI_DEV_ECC_CURRENT",
	"DCGM_FI_DEV_RETIRED_SBE", "DCGM_FI_DEV_RETIRED_DBE", "DCGM_FI_DEV_RETIRED_PENDING", "DCGM_FI_DEV_ROW_REMAP_PENDING",
	"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
	"DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_BANDWIDTH_L0", "DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX", "DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_RX",
	"DCGM_FI_DEV_NVSWITCH_LINK_STATUS", "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT", "DCGM_FI_DEV_CPU_UTIL_TOTAL", "DCGM_FI_DEV_CPU_TEMP_CURRENT", "DCGM_FI_DEV_CPU_POWER_UTIL_CURRENT",
	"DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_PIPE_FP64_ACTIVE", "DCGM_FI_PROF_PIPE_FP32_ACTIVE", "DCGM_FI_PROF_PIPE_FP16_ACTIVE",
	"DCGM_FI_PROF_PIPE_INT_ACTIVE", "DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES",
	"DCGM_EXP_CLOCK_EVENTS_COUNT", "DCGM_EXP_GPU_HEALTH_STATUS", "DCGM_EXP_P2P_STATUS",
}

// always are metrics of dcgm-exporter that are written whether asked for or not.
var always = []string{"DCGM_EXP_XID_ERRORS_COUNT", "DCGM_EXP_XID_ERRORS_TOTAL"}

// driverVersion is the one label field.
const driverVersion = "DCGM_FI_DRIVER_VERSION"

// ParseFields reads a file of fields as dcgm-exporter takes it, which name is for
// messages: lines of FIELD, gauge|counter|label, help; # begins a comment. Fields
// that DCGM has and NVML does not give are left out and told of in a sentence each.
// Every other line that cannot be read is an error that begins with "name:line:".
func ParseFields(name string, data []byte) (Fields, []string, error) {
	r := csv.NewReader(strings.NewReader(string(data)))
	r.Comment, r.TrimLeadingSpace, r.FieldsPerRecord, r.LazyQuotes = '#', true, -1, true
	out := Fields{chosen: []field{}}
	var told []string
	seen := map[string]int{}
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Fields{}, nil, fmt.Errorf("read fields from %s: %w", name, err)
		}
		line, _ := r.FieldPos(0)
		if len(record) == 1 && strings.TrimSpace(record[0]) == "" {
			continue
		}
		f, said, err := parseField(record)
		if err == nil && seen[f.name] > 0 {
			err = fmt.Errorf("%s is on line %d already; take one of them out", f.name, seen[f.name])
		}
		switch {
		case err != nil:
			return Fields{}, nil, fmt.Errorf("%s:%d: %w", name, line, err)
		case said != "":
			told = append(told, fmt.Sprintf("%s:%d: %s", name, line, said))
		case f.name == driverVersion:
			out.driver = true
		case f.name != "":
			out.chosen = append(out.chosen, f)
		}
		seen[f.name] = line
	}
	if len(out.chosen) == 0 {
		return Fields{}, nil, fmt.Errorf("%s: no field that can be written; leave the file out for the default set", name)
	}
	return out, told, nil
}

// parseField reads one line; said is why a good line gives no field.
func parseField(record []string) (f field, said string, err error) {
	if len(record) < 3 {
		return f, "", fmt.Errorf("%d columns of three: FIELD, gauge|counter|label, help", len(record))
	}
	name, kind := strings.TrimSpace(record[0]), strings.TrimSpace(record[1])
	f.name = name
	if kind != "gauge" && kind != "counter" && kind != "label" {
		return f, "", fmt.Errorf("%s has the type %q; write gauge, counter or label", name, kind)
	}
	if (kind == "label") != (name == driverVersion) && !slices.Contains(elsewhere, name) {
		if name == driverVersion {
			return f, "", fmt.Errorf("%s is a text; write label as its type", name)
		}
		return f, "", fmt.Errorf("%s cannot be a label: only %s can", name, driverVersion)
	}
	for _, list := range [][]field{fields, optional} {
		if i := slices.IndexFunc(list, func(f field) bool { return f.name == name }); i >= 0 {
			f = list[i]
			f.kind, f.help = kind, strings.TrimSpace(strings.Join(record[2:], ","))
			return f, "", nil
		}
	}
	switch {
	case name == driverVersion:
		return f, "", nil
	case slices.Contains(always, name):
		return f, name + " is written anyway", nil
	case slices.Contains(elsewhere, name):
		return f, name + " is left out: it takes DCGM, or Berth does not write it", nil
	}
	if near := gpu.NearestWord(name, known()); near != "" {
		return f, "", fmt.Errorf("%s is no field of DCGM's that Berth knows; did you mean %s?", name, near)
	}
	return f, "", fmt.Errorf("%s is no field of DCGM's that Berth knows; take the line out", name)
}

func known() []string {
	out := append(slices.Clone(always), driverVersion)
	for _, list := range [][]field{fields, optional} {
		for i := range list {
			out = append(out, list[i].name)
		}
	}
	return append(out, elsewhere...)
}
