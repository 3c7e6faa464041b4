package exporter

import (
	"strconv"

	"berth.dev/berth/agent/nvml"
)

// measured are fields of DCGM of which a Reading knows nothing: each is read from the
// driver only where a file of fields asks for it.
var measured = withLinkFields([]field{ //nolint:gochecknoglobals // a table
	// Clocks, power, cooling.
	count("DCGM_FI_DEV_VIDEO_CLOCK", "gauge", "Video clock frequency (in MHz).", "VideoClockMHz", "nvmlDeviceGetClockInfo"),
	count("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "gauge", "Why clocks are lowered now, as a bitmask of NVML.", "ClockReasons", clockReasons),
	count("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "gauge", "Why clocks are lowered now, as a bitmask of NVML.", "ClockReasons", clockReasons),
	count("DCGM_FI_DEV_PSTATE", "gauge", "Performance state; 0 is the fastest.", "PerformanceState", "nvmlDeviceGetPerformanceState"),
	count("DCGM_FI_DEV_FAN_SPEED", "gauge", "Fan speed (in %).", "FanPercent", "nvmlDeviceGetFanSpeed"),
	ratio("DCGM_FI_DEV_POWER_USAGE_INSTANT", "Power draw at this moment (in W).", "PowerInstant", "NVML_FI_DEV_POWER_INSTANT"),

	// PCIe.
	count("DCGM_FI_DEV_PCIE_TX_THROUGHPUT", "gauge", "PCIe traffic sent over 20 ms (in KB/s).", "PCIeTxThroughput", "nvmlDeviceGetPcieThroughput, which waits 20 ms"),
	count("DCGM_FI_DEV_PCIE_RX_THROUGHPUT", "gauge", "PCIe traffic received over 20 ms (in KB/s).", "PCIeRxThroughput", "nvmlDeviceGetPcieThroughput, which waits 20 ms"),
	count("DCGM_FI_DEV_PCIE_LINK_GEN", "gauge", "PCIe generation of the link now.", "PCIeGeneration", "nvmlDeviceGetCurrPcieLinkGeneration"),
	count("DCGM_FI_DEV_PCIE_LINK_WIDTH", "gauge", "PCIe lanes of the link now.", "PCIeWidth", "nvmlDeviceGetCurrPcieLinkWidth"),

	// Time in which clocks were lowered.
	count("DCGM_FI_DEV_POWER_VIOLATION", "counter", "Throttling duration due to power constraints (in ns).", "PowerViolation", "NVML_FI_DEV_PERF_POLICY_POWER"),
	count("DCGM_FI_DEV_THERMAL_VIOLATION", "counter", "Throttling duration due to thermal constraints (in ns).", "ThermalViolation", "NVML_FI_DEV_PERF_POLICY_THERMAL"),
	count("DCGM_FI_DEV_SYNC_BOOST_VIOLATION", "counter", "Throttling duration due to sync-boost constraints (in ns).", "SyncBoostViolation", "NVML_FI_DEV_PERF_POLICY_SYNC_BOOST"),
	count("DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", "counter", "Throttling duration due to board limit constraints (in ns).", "BoardLimitViolation", "NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT"),
	count("DCGM_FI_DEV_LOW_UTIL_VIOLATION", "counter", "Throttling duration due to low utilization (in ns).", "LowUtilizationViolation", "NVML_FI_DEV_PERF_POLICY_LOW_UTILIZATION"),
	count("DCGM_FI_DEV_RELIABILITY_VIOLATION", "counter", "Throttling duration due to reliability constraints (in ns).", "ReliabilityViolation", "NVML_FI_DEV_PERF_POLICY_RELIABILITY"),
	count("DCGM_FI_DEV_TOTAL_APP_CLOCKS_VIOLATION", "counter", "Time below the application clocks (in ns).", "AppClocksViolation", "NVML_FI_DEV_PERF_POLICY_TOTAL_APP_CLOCKS"),
	count("DCGM_FI_DEV_TOTAL_BASE_CLOCKS_VIOLATION", "counter", "Time below the base clocks (in ns).", "BaseClocksViolation", "NVML_FI_DEV_PERF_POLICY_TOTAL_BASE_CLOCKS"),

	// Memory errors.
	count("DCGM_FI_DEV_ECC_CURRENT", "gauge", "Whether ECC is on.", "ECCMode", "NVML_FI_DEV_ECC_CURRENT"),
	count("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter", "Total number of single-bit volatile ECC errors.", "ECCSingleVolatile", "NVML_FI_DEV_ECC_SBE_VOL_TOTAL"),
	count("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Total number of double-bit volatile ECC errors.", "ECCDoubleVolatile", "NVML_FI_DEV_ECC_DBE_VOL_TOTAL"),
	count("DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "counter", "Total number of single-bit persistent ECC errors.", "ECCSingleAggregate", "NVML_FI_DEV_ECC_SBE_AGG_TOTAL"),
	count("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "counter", "Total number of double-bit persistent ECC errors.", "ECCDoubleAggregate", "NVML_FI_DEV_ECC_DBE_AGG_TOTAL"),
	count("DCGM_FI_DEV_RETIRED_SBE", "counter", "Total number of retired pages due to single-bit errors.", "RetiredSingleBit", "NVML_FI_DEV_RETIRED_SBE"),
	count("DCGM_FI_DEV_RETIRED_DBE", "counter", "Total number of retired pages due to double-bit errors.", "RetiredDoubleBit", "NVML_FI_DEV_RETIRED_DBE"),
	count("DCGM_FI_DEV_RETIRED_PENDING", "counter", "Total number of pages pending retirement.", "RetiredPending", "NVML_FI_DEV_RETIRED_PENDING"),
	count("DCGM_FI_DEV_ROW_REMAP_PENDING", "gauge", "Whether a row is remapped at the next reset.", "RowRemapPending", "NVML_FI_DEV_REMAPPED_PENDING"),

	// NVLink.
	count("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink flow-control CRC errors.", "NVLinkFlitErrors", "NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"),
	count("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink data CRC errors.", "NVLinkDataErrors", "NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL"),
	count("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink retries.", "NVLinkReplays", "NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"),
	count("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink recovery errors.", "NVLinkRecoveries", "NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL"),

	// What GPM gives, of a MIG device its own.
	own(ratio("DCGM_FI_PROF_SM_ACTIVE", "The ratio of cycles an SM has at least 1 warp assigned.", "SMActiveRatio", "GPM SM_UTIL")),
	own(ratio("DCGM_FI_PROF_SM_OCCUPANCY", "The ratio of number of warps resident on an SM.", "SMOccupancyRatio", "GPM SM_OCCUPANCY")),
	own(ratio("DCGM_FI_PROF_PIPE_INT_ACTIVE", "Ratio of cycles the integer pipes are active.", "IntegerActiveRatio", "GPM INTEGER_UTIL")),
	own(ratio("DCGM_FI_PROF_PIPE_FP64_ACTIVE", "Ratio of cycles the fp64 pipes are active.", "FP64ActiveRatio", "GPM FP64_UTIL")),
	own(ratio("DCGM_FI_PROF_PIPE_FP32_ACTIVE", "Ratio of cycles the fp32 pipes are active.", "FP32ActiveRatio", "GPM FP32_UTIL")),
	own(ratio("DCGM_FI_PROF_PIPE_FP16_ACTIVE", "Ratio of cycles the fp16 pipes are active.", "FP16ActiveRatio", "GPM FP16_UTIL")),
	own(ratio("DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE", "Ratio of cycles the tensor (DFMA) pipe is active.", "TensorDFMARatio", "GPM DFMA_TENSOR_UTIL")),
	own(ratio("DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE", "Ratio of cycles the tensor (HMMA) pipe is active.", "TensorHMMARatio", "GPM HMMA_TENSOR_UTIL")),
	own(ratio("DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE", "Ratio of cycles the tensor (IMMA) pipe is active.", "TensorIMMARatio", "GPM IMMA_TENSOR_UTIL")),
	count("DCGM_FI_PROF_NVLINK_TX_BYTES", "gauge", "The rate of data sent over NVLink (in bytes per second).", "NVLinkTxBytesPerSecond", "GPM NVLINK_TOTAL_TX_PER_SEC"),
	count("DCGM_FI_PROF_NVLINK_RX_BYTES", "gauge", "The rate of data received over NVLink (in bytes per second).", "NVLinkRxBytesPerSecond", "GPM NVLINK_TOTAL_RX_PER_SEC"),
})

const clockReasons = "nvmlDeviceGetCurrentClocksEventReasons"

// count is a field of whole numbers, ratio a gauge of others; from is the call of
// NVML.
func count(name, kind, help string, m nvml.Measure, from string) field {
	return field{name: name, kind: kind, help: help, measure: m, integer: true, needs: []string{string(m)}, from: from}
}

func ratio(name, help string, m nvml.Measure, from string) field {
	return field{name: name, kind: "gauge", help: help, measure: m, needs: []string{string(m)}, from: from}
}

// own says that a MIG device has a value of its own.
func own(f field) field {
	f.cut = true
	return f
}

// withLinkFields adds the traffic of each NVLink.
func withLinkFields(list []field) []field {
	for link := range nvml.MostLinks {
		list = append(list, count("DCGM_FI_DEV_NVLINK_BANDWIDTH_L"+strconv.Itoa(link), "counter", "NVLink traffic of link "+strconv.Itoa(link)+", both directions (in KiB).",
			nvml.LinkMeasure(link), "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX and _RX of the link"))
	}
	return list
}
