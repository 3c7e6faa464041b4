package exporter_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/agent/exporter"
	"berth.dev/berth/agent/nvml"
)

// shipped are the fields that the files of dcgm-exporter 4.x name, commented out or
// not; DCGM_FI_ before each but the last.
const shipped = `DEV_BOARD_LIMIT_VIOLATION DEV_BRAND DEV_CORRECTABLE_REMAPPED_ROWS DEV_DEC_UTIL DEV_ECC_DBE_AGG_TOTAL DEV_ECC_DBE_VOL_TOTAL
DEV_ECC_INFOROM_VER DEV_ECC_SBE_AGG_TOTAL DEV_ECC_SBE_VOL_TOTAL DEV_ENC_UTIL DEV_FB_FREE DEV_FB_RESERVED DEV_FB_USED DEV_GPU_TEMP DEV_GPU_UTIL
DEV_INFOROM_IMAGE_VER DEV_LOW_UTIL_VIOLATION DEV_MEMORY_TEMP DEV_MEM_CLOCK DEV_MEM_COPY_UTIL DEV_NVLINK_BANDWIDTH_L0 DEV_NVLINK_BANDWIDTH_TOTAL
DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL
DEV_OEM_INFOROM_VER DEV_PCIE_REPLAY_COUNTER DEV_PCIE_RX_THROUGHPUT DEV_PCIE_TX_THROUGHPUT DEV_POWER_INFOROM_VER DEV_POWER_USAGE DEV_POWER_VIOLATION
DEV_RELIABILITY_VIOLATION DEV_RETIRED_DBE DEV_RETIRED_PENDING DEV_RETIRED_SBE DEV_ROW_REMAP_FAILURE DEV_SERIAL DEV_SM_CLOCK DEV_SYNC_BOOST_VIOLATION
DEV_THERMAL_VIOLATION DEV_TOTAL_ENERGY_CONSUMPTION DEV_UNCORRECTABLE_REMAPPED_ROWS DEV_VBIOS_VERSION DEV_VGPU_LICENSE_STATUS DEV_XID_ERRORS
DRIVER_VERSION NVML_VERSION PROF_DRAM_ACTIVE PROF_GR_ENGINE_ACTIVE PROF_PCIE_RX_BYTES PROF_PCIE_TX_BYTES PROF_PIPE_FP16_ACTIVE PROF_PIPE_FP32_ACTIVE
PROF_PIPE_FP64_ACTIVE PROF_PIPE_TENSOR_ACTIVE PROF_SM_ACTIVE PROF_SM_OCCUPANCY
DCGM_EXP_CLOCK_EVENTS_COUNT DCGM_EXP_GPU_HEALTH_STATUS DCGM_EXP_P2P_STATUS DCGM_EXP_XID_ERRORS_COUNT`

const page = "../../docs/reference/dcgm-fields.md"

// The page of fields has a row for each that the code knows, and no other; every field
// of dcgm-exporter's files is known.
func TestThePageOfFieldsIsTheCodes(t *testing.T) {
	var want, names []string
	for _, e := range exporter.Catalog() {
		served := e.Served
		if served == "" {
			served = "no"
		}
		if e.Why == "" {
			t.Errorf("%s: neither a source nor a reason", e.Name)
		}
		want, names = append(want, "| `"+e.Name+"` | "+served+" | "+e.Why+" |"), append(names, e.Name)
	}
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("a field is there twice: %v", names)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `DCGM_") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s is not what the code says (-code +page):\n%s", page, diff)
	}
	for name := range strings.FieldsSeq(shipped) {
		if !strings.HasPrefix(name, "DCGM_") {
			name = "DCGM_FI_" + name
		}
		if !slices.Contains(names, name) {
			t.Errorf("%s is in dcgm-exporter's files and not known", name)
		}
	}
}

// Every field that is served can be asked for, what it needs is asked of the driver,
// once, and a file of all of them has nothing to complain about.
func TestEveryServedFieldCanBeAskedFor(t *testing.T) {
	text, served := "", 0
	for _, e := range exporter.Catalog() {
		switch {
		case e.Served == "" || e.Served == "always":
		case e.Name == "DCGM_FI_DRIVER_VERSION":
			text += e.Name + ", label, x\n"
		default:
			text += e.Name + ", gauge, x\n"
			served++
		}
	}
	f, faults := exporter.ParseFields("f", []byte(text))
	if len(faults) > 0 || len(f.Names()) != served {
		t.Fatalf("%d of %d fields, faults %v", len(f.Names()), served, faults)
	}
	seen := map[nvml.Measure]bool{}
	for _, m := range f.Measures() {
		if !m.Known() || seen[m] {
			t.Errorf("measure %s: known %v, twice %v", m, m.Known(), seen[m])
		}
		seen[m] = true
	}
	if plain, _ := exporter.ParseFields("f", []byte("DCGM_FI_DEV_GPU_TEMP, gauge, x\n")); len(plain.Measures()) > 0 || len(new(exporter.Fields).Measures()) > 0 {
		t.Error("measures are read that no field asks for")
	}
}
