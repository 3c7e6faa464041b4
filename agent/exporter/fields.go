package exporter

import (
	"strconv"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/gpu"
)

// field is one metric of dcgm-exporter.
type field struct {
	name, kind, help string
	// whole writes an integer, ratio a floating point number.
	whole func(*Device) int64
	ratio func(*Device) float64
	// measure is set in place of whole and ratio where the value is in Device.More, at
	// this place; integer says that it is a whole number.
	measure nvml.Measure
	at      int
	integer bool
	from    string // the call of NVML, for Catalog
	// notMIG leaves the field out for GPUs with MIG enabled, where NVML does
	// not give it.
	notMIG bool
	// cut says that a MIG device has a value of its own; of any other field it
	// has its GPU's.
	cut bool
	// parts is how the value is divided among those who share a device.
	parts parts
	// more adds labels of the field's own to those of the device; nil is none.
	more func(b []byte, d *Device) []byte
	// needs names the fields of gpu.Reading that it is made of: without one of
	// them there is no series.
	needs []string
}

// parts is how the value of a shared device is divided; see Options.Divide.
type parts int

const (
	undivided parts = iota // one series, of the device
	byMemory               // what the processes of each holder use
	byWork                 // in proportion to the shares of those who run
)

const mib = 1 << 20

// percent rounds a ratio to whole percent.
func percent(ratio float64) int64 { return int64(ratio*100 + 0.5) }

// memory is in bytes, of the MIG device where there is one.
func memory(d *Device) int64 {
	if d.MIG != nil {
		return d.MIG.MemoryBytes
	}
	return d.GPU.MemoryBytes
}

// memoryFree is in MiB, rounded down, of the MIG device where there is one.
func memoryFree(d *Device) int64 {
	return (memory(d) - d.Reading.MemoryUsedBytes - d.Reading.MemoryReservedBytes) / mib
}

func number(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// xidLabels are dcgm-exporter's err_code and err_msg. The words of the second are
// NVIDIA's catalog's, as Berth has them elsewhere.
func xidLabels(b []byte, d *Device) []byte {
	message := "No Error"
	if d.Reading.Xid != 0 {
		message = gpu.Xid(d.Reading.Xid).Name
	}
	b = append(b, `,err_code="`...)
	b = strconv.AppendInt(b, int64(d.Reading.Xid), 10)
	return addLabel(append(b, '"'), "err_msg", message)
}

// fields is the default set of dcgm-exporter 4.x (its default-counters.csv), in
// its order. Names, types and help are the protocol: where both exporters serve,
// Prometheus takes another help for another metric.
var fields = []field{
	{
		name: "DCGM_FI_DEV_SM_CLOCK", kind: "gauge", help: "SM clock frequency (in MHz).",
		needs: []string{"SMClockMHz"},
		whole: func(d *Device) int64 { return int64(d.Reading.SMClockMHz) },
	},
	{
		name: "DCGM_FI_DEV_MEM_CLOCK", kind: "gauge", help: "Memory clock frequency (in MHz).",
		needs: []string{"MemoryClockMHz"},
		whole: func(d *Device) int64 { return int64(d.Reading.MemoryClockMHz) },
	},
	{
		name: "DCGM_FI_DEV_MEMORY_TEMP", kind: "gauge", help: "Memory temperature (in C).",
		needs: []string{"MemoryTempCelsius"},
		whole: func(d *Device) int64 { return int64(d.Reading.MemoryTempCelsius) },
	},
	{
		name: "DCGM_FI_DEV_GPU_TEMP", kind: "gauge", help: "GPU temperature (in C).",
		needs: []string{"TemperatureCelsius"},
		whole: func(d *Device) int64 { return int64(d.Reading.TemperatureCelsius) },
	},
	{
		name: "DCGM_FI_DEV_POWER_USAGE", kind: "gauge", help: "Power draw (in W).",
		needs: []string{"PowerWatts"},
		ratio: func(d *Device) float64 { return d.Reading.PowerWatts },
	},
	{
		name: "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", kind: "counter", help: "Total energy consumption since boot (in mJ).",
		needs: []string{"EnergyMillijoules"},
		whole: func(d *Device) int64 { return d.Reading.EnergyMillijoules },
	},
	{
		name: "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", kind: "counter", help: "Total number of PCIe retries.",
		needs: []string{"PCIeReplays"},
		whole: func(d *Device) int64 { return d.Reading.PCIeReplays },
	},
	{
		name: "DCGM_FI_DEV_GPU_UTIL", kind: "gauge", help: "GPU utilization (in %).", notMIG: true,
		parts: byWork, needs: []string{"UtilizationRatio"},
		whole: func(d *Device) int64 { return percent(d.Reading.UtilizationRatio) },
	},
	{
		name: "DCGM_FI_DEV_MEM_COPY_UTIL", kind: "gauge", help: "Memory utilization (in %).", notMIG: true,
		needs: []string{"MemoryUtilization"},
		whole: func(d *Device) int64 { return percent(d.Reading.MemoryUtilization) },
	},
	{
		name: "DCGM_FI_DEV_ENC_UTIL", kind: "gauge", help: "Encoder utilization (in %).", notMIG: true,
		needs: []string{"EncoderRatio"},
		whole: func(d *Device) int64 { return percent(d.Reading.EncoderRatio) },
	},
	{
		name: "DCGM_FI_DEV_DEC_UTIL", kind: "gauge", help: "Decoder utilization (in %).", notMIG: true,
		needs: []string{"DecoderRatio"},
		whole: func(d *Device) int64 { return percent(d.Reading.DecoderRatio) },
	},
	{
		name: "DCGM_FI_DEV_XID_ERRORS", kind: "gauge", help: "Value of the last XID error encountered.", more: xidLabels,
		whole: func(d *Device) int64 { return int64(d.Reading.Xid) },
	},
	{
		name: "DCGM_FI_DEV_FB_FREE", kind: "gauge", help: "Framebuffer memory free (in MiB).",
		cut: true, needs: []string{"MemoryUsedBytes"},
		whole: memoryFree,
	},
	{
		name: "DCGM_FI_DEV_FB_USED", kind: "gauge", help: "Framebuffer memory used (in MiB).",
		cut: true, parts: byMemory, needs: []string{"MemoryUsedBytes"},
		whole: func(d *Device) int64 { return d.Reading.MemoryUsedBytes / mib },
	},
	{
		name: "DCGM_FI_DEV_FB_RESERVED", kind: "gauge", help: "Framebuffer memory reserved (in MiB).",
		cut: true, needs: []string{"MemoryReservedBytes"},
		whole: func(d *Device) int64 { return d.Reading.MemoryReservedBytes / mib },
	},
	// NVML counts KiB a link; dcgm-exporter passes the sum on.
	{
		name: "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", kind: "counter", help: "Total number of NVLink bandwidth counters for all lanes",
		needs: []string{"NVLinkBytes"},
		whole: func(d *Device) int64 { return d.Reading.NVLinkBytes / 1024 },
	},
	// 0 is unlicensed, which is what a GPU that is not a vGPU says.
	{
		name: "DCGM_FI_DEV_VGPU_LICENSE_STATUS", kind: "gauge", help: "vGPU License status",
		whole: func(*Device) int64 { return 0 },
	},
	{
		name: "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", kind: "counter", help: "Number of remapped rows for uncorrectable errors",
		needs: []string{"RemappedRows"},
		whole: func(d *Device) int64 { return d.Reading.RemappedRows },
	},
	{
		name: "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", kind: "counter", help: "Number of remapped rows for correctable errors",
		needs: []string{"CorrectableRemappedRows"},
		whole: func(d *Device) int64 { return d.Reading.CorrectableRemappedRows },
	},
	{
		name: "DCGM_FI_DEV_ROW_REMAP_FAILURE", kind: "gauge", help: "Whether remapping of rows has failed",
		needs: []string{"RowRemapFailed"},
		whole: func(d *Device) int64 {
			return number(d.Reading.RowRemapFailed)
		},
	},
	{
		name: "DCGM_FI_PROF_GR_ENGINE_ACTIVE", kind: "gauge", help: "Ratio of time the graphics engine is active.",
		cut: true, parts: byWork, needs: []string{"UtilizationRatio", "TensorActiveRatio"},
		ratio: func(d *Device) float64 { return d.Reading.UtilizationRatio },
	},
	{
		name: "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", kind: "gauge", help: "Ratio of cycles the tensor (HMMA) pipe is active.",
		cut: true, needs: []string{"TensorActiveRatio"},
		ratio: func(d *Device) float64 { return d.Reading.TensorActiveRatio },
	},
	{
		name: "DCGM_FI_PROF_DRAM_ACTIVE", kind: "gauge", help: "Ratio of cycles the device memory interface is active sending or receiving data.",
		cut: true, needs: []string{"DRAMActiveRatio"},
		ratio: func(d *Device) float64 { return d.Reading.DRAMActiveRatio },
	},
	{
		name: "DCGM_FI_PROF_PCIE_TX_BYTES", kind: "gauge", help: "The rate of data transmitted over the PCIe bus - including both protocol headers and data payloads - in bytes per second.",
		needs: []string{"PCIeTxBytesPerSecond"},
		whole: func(d *Device) int64 { return int64(d.Reading.PCIeTxBytesPerSecond) },
	},
	{
		name: "DCGM_FI_PROF_PCIE_RX_BYTES", kind: "gauge", help: "The rate of data received over the PCIe bus - including both protocol headers and data payloads - in bytes per second.",
		needs: []string{"PCIeRxBytesPerSecond"},
		whole: func(d *Device) int64 { return int64(d.Reading.PCIeRxBytesPerSecond) },
	},
}

// optional are further fields of DCGM, written where a file of fields asks.
var optional = []field{
	{
		name: "DCGM_FI_DEV_POWER_MGMT_LIMIT", kind: "gauge", help: "Power limit (in W).", needs: []string{"PowerLimitWatts"},
		ratio: func(d *Device) float64 { return d.Reading.PowerLimitWatts },
	},
	{
		name: "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", kind: "gauge", help: "Active power limit (in W).", needs: []string{"PowerLimitWatts"},
		ratio: func(d *Device) float64 { return d.Reading.PowerLimitWatts },
	},
	{
		name: "DCGM_FI_DEV_FB_TOTAL", kind: "gauge", help: "Total framebuffer memory (in MiB).", cut: true,
		whole: func(d *Device) int64 { return memory(d) / mib },
	},
	{
		name: "DCGM_FI_DEV_FB_USED_PERCENT", kind: "gauge", help: "Framebuffer memory used, as a ratio of unreserved memory.", cut: true,
		needs: []string{"MemoryUsedBytes"},
		ratio: func(d *Device) float64 {
			return float64(d.Reading.MemoryUsedBytes) / float64(max(1, memory(d)-d.Reading.MemoryReservedBytes))
		},
	},
	{
		name: "DCGM_FI_DEV_MIG_MODE", kind: "gauge", help: "Whether MIG is on.",
		whole: func(d *Device) int64 { return number(d.GPU.MIGEnabled) },
	},
}
