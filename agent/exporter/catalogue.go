package exporter

import (
	"cmp"
	"slices"
	"strings"
)

// sources says of which call of NVML the fields of a Reading are.
var sources = map[string]string{
	"DCGM_FI_DEV_SM_CLOCK": "nvmlDeviceGetClockInfo", "DCGM_FI_DEV_MEM_CLOCK": "nvmlDeviceGetClockInfo",
	"DCGM_FI_DEV_MEMORY_TEMP": "NVML_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_GPU_TEMP": "nvmlDeviceGetTemperature",
	"DCGM_FI_DEV_POWER_USAGE": "nvmlDeviceGetPowerUsage", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": "nvmlDeviceGetTotalEnergyConsumption",
	"DCGM_FI_DEV_POWER_MGMT_LIMIT": "nvmlDeviceGetEnforcedPowerLimit", "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": "nvmlDeviceGetEnforcedPowerLimit",
	"DCGM_FI_DEV_PCIE_REPLAY_COUNTER": "nvmlDeviceGetPcieReplayCounter",
	"DCGM_FI_DEV_GPU_UTIL":            "nvmlDeviceGetUtilizationRates; not with MIG on", "DCGM_FI_DEV_MEM_COPY_UTIL": "nvmlDeviceGetUtilizationRates; not with MIG on",
	"DCGM_FI_DEV_ENC_UTIL": "nvmlDeviceGetEncoderUtilization; not with MIG on", "DCGM_FI_DEV_DEC_UTIL": "nvmlDeviceGetDecoderUtilization; not with MIG on",
	"DCGM_FI_DEV_XID_ERRORS": "nvmlEventSetWait",
	"DCGM_FI_DEV_FB_FREE":    "nvmlDeviceGetMemoryInfo_v2", "DCGM_FI_DEV_FB_USED": "nvmlDeviceGetMemoryInfo_v2", "DCGM_FI_DEV_FB_RESERVED": "nvmlDeviceGetMemoryInfo_v2",
	"DCGM_FI_DEV_FB_TOTAL": "nvmlDeviceGetMemoryInfo_v2", "DCGM_FI_DEV_FB_USED_PERCENT": "nvmlDeviceGetMemoryInfo_v2",
	"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX and _RX of all links",
	"DCGM_FI_DEV_VGPU_LICENSE_STATUS":    "always 0: Berth serves no vGPUs", "DCGM_FI_DEV_MIG_MODE": "nvmlDeviceGetMigMode",
	"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": "nvmlDeviceGetRemappedRows", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": "nvmlDeviceGetRemappedRows",
	"DCGM_FI_DEV_ROW_REMAP_FAILURE": "nvmlDeviceGetRemappedRows",
	"DCGM_FI_PROF_GR_ENGINE_ACTIVE": "GPM GRAPHICS_UTIL; of a GPU without MIG nvmlDeviceGetUtilizationRates", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "GPM ANY_TENSOR_UTIL",
	"DCGM_FI_PROF_DRAM_ACTIVE": "GPM DRAM_BW_UTIL", "DCGM_FI_PROF_PCIE_TX_BYTES": "GPM PCIE_TX_PER_SEC", "DCGM_FI_PROF_PCIE_RX_BYTES": "GPM PCIE_RX_PER_SEC",
	driverVersion: "nvmlSystemGetDriverVersion, as a label", "DCGM_EXP_XID_ERRORS_COUNT": "nvmlEventSetWait; always present", "DCGM_EXP_XID_ERRORS_TOTAL": "nvmlEventSetWait; always present",
}

// Why a field of DCGM's is not served.
const (
	aText     = "a text that does not change: no series needs it as a label, and every label makes each series longer"
	ofDCGM    = "made by DCGM itself, not by NVML"
	ofSwitch  = "of NVSwitches, which Fabric Manager reads"
	ofCPU     = "of Grace CPUs"
	oldClocks = "application clocks are deprecated in NVML"
	threshold = "a constant of the product, not a reading"
)

// elsewhere are fields of the files that dcgm-exporter ships, or that are commonly
// added to them, which Berth does not serve, and why.
var elsewhere = map[string]string{
	"DCGM_FI_DEV_BRAND": aText, "DCGM_FI_DEV_SERIAL": aText, "DCGM_FI_DEV_NAME": "is in the label modelName", "DCGM_FI_DEV_MINOR_NUMBER": "is in the label device",
	"DCGM_FI_DEV_OEM_INFOROM_VER": aText, "DCGM_FI_DEV_ECC_INFOROM_VER": aText, "DCGM_FI_DEV_POWER_INFOROM_VER": aText,
	"DCGM_FI_DEV_INFOROM_IMAGE_VER": aText, "DCGM_FI_DEV_VBIOS_VERSION": aText, "DCGM_FI_NVML_VERSION": "is in the label DCGM_FI_DRIVER_VERSION: NVML comes with the driver",
	"DCGM_FI_PROCESS_NAME": ofDCGM, "DCGM_FI_CUDA_DRIVER_VERSION": "is in the node's label nvidia.com/cuda.driver-version.full",
	"DCGM_FI_DEV_CUDA_COMPUTE_CAPABILITY": "is in the node's labels nvidia.com/gpu.compute.*", "DCGM_FI_DEV_VGPU_DRIVER_VERSION": "Berth serves no vGPUs",
	"DCGM_FI_DEV_APP_SM_CLOCK": oldClocks, "DCGM_FI_DEV_APP_MEM_CLOCK": oldClocks,
	"DCGM_FI_DEV_GPU_MAX_OP_TEMP": threshold, "DCGM_FI_DEV_SLOWDOWN_TEMP": threshold,
	"DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX": ofSwitch, "DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_RX": ofSwitch,
	"DCGM_FI_DEV_NVSWITCH_LINK_STATUS": ofSwitch, "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT": ofSwitch,
	"DCGM_FI_DEV_CPU_UTIL_TOTAL": ofCPU, "DCGM_FI_DEV_CPU_TEMP_CURRENT": ofCPU, "DCGM_FI_DEV_CPU_POWER_UTIL_CURRENT": ofCPU,
	"DCGM_EXP_CLOCK_EVENTS_COUNT": ofDCGM + "; DCGM_FI_DEV_CLOCKS_EVENT_REASONS is the mask it counts", "DCGM_EXP_GPU_HEALTH_STATUS": ofDCGM + "; berth_gpu_healthy says which devices can be allocated",
	"DCGM_EXP_P2P_STATUS": ofDCGM,
}

// Entry is a field of DCGM's that is known here.
type Entry struct {
	Name   string
	Served string // by default, on request, always; "" is never
	Why    string // the call of NVML it is from, or why it is not served
}

// Catalog lists all that is known of DCGM's fields, by name.
func Catalog() []Entry {
	var out []Entry
	add := func(list []field, served string) {
		for i := range list {
			out = append(out, Entry{list[i].name, served, cmp.Or(list[i].from, sources[list[i].name])})
		}
	}
	add(fields, "by default")
	add(optional, "on request")
	add(measured, "on request")
	out = append(out, Entry{driverVersion, "by default", sources[driverVersion]})
	for _, name := range always {
		out = append(out, Entry{name, "always", sources[name]})
	}
	for name, why := range elsewhere {
		out = append(out, Entry{name, "", why})
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return out
}
