package smi

import (
	"fmt"
	"strconv"
	"strings"

	"berth.dev/berth/core/gpu"
)

// reading makes the value of a field from the reading of the whole GPU.
func reading(f func(gpu.Reading) string) func(row) string {
	return func(r row) string { return f(r.device.Reading) }
}

// always is a value that every simulated GPU has.
func always(s string) func(row) string { return func(row) string { return s } }

// utilization is a ratio as whole percent; NVML gives none with MIG on.
func utilization(f func(gpu.Reading) float64) func(row) string {
	return func(r row) string {
		if r.device.GPU.MIGEnabled {
			return notAvailable
		}
		return percent(f(r.device.Reading))
	}
}

func megabytes(n int64) string { return strconv.FormatInt(n/mib, 10) }
func watts(w float64) string   { return strconv.FormatFloat(w, 'f', 2, 64) }

// bracketed is "N/A" in the brackets that CSV has for it.
func bracketed(s string) string {
	if s == "N/A" {
		return notAvailable
	}
	return s
}

func product(r row) gpu.Product {
	p, _ := gpu.Find(r.device.GPU.Product)
	return p
}

// ecc is a counter of errors, where the GPU corrects any.
func ecc(f func(gpu.Reading) int64) func(row) string {
	return func(r row) string {
		if geforce(r.device) {
			return notAvailable
		}
		return strconv.FormatInt(f(r.device.Reading), 10)
	}
}

func eccMode(r row) string {
	if geforce(r.device) {
		return "Disabled"
	}
	return "Enabled"
}

func active(on bool) string {
	if on {
		return "Active"
	}
	return "Not Active"
}

// busPart is a part of the bus ID "DOMAIN:BUS:DEVICE.FUNCTION" as hexadecimal.
func busPart(i int) func(row) string {
	return func(r row) string {
		parts := strings.FieldsFunc(r.device.GPU.BusID, func(c rune) bool { return c == ':' || c == '.' })
		if i >= len(parts) {
			return notAvailable
		}
		digits := parts[i]
		if i == 0 && len(digits) == 8 {
			digits = digits[4:]
		}
		return "0x" + digits
	}
}

// gpuFields are the fields of --query-gpu that are simulated, and those of the
// real program that no simulated GPU has.
var gpuFields = append([]field{
	{name: "timestamp", value: func(r row) string { return r.view.Now.Format("2006/01/02 15:04:05.000") }},
	{name: "driver_version", value: func(r row) string { return r.view.Driver }},
	{name: "count", value: func(r row) string { return strconv.Itoa(len(r.view.Devices)) }},
	{name: "name", aliases: []string{"gpu_name"}, value: func(r row) string { return r.device.GPU.Product }},
	{name: "uuid", aliases: []string{"gpu_uuid"}, value: func(r row) string { return r.device.GPU.UUID }},
	{name: "index", value: func(r row) string { return strconv.Itoa(r.device.GPU.Index) }},
	{name: "pci.bus_id", aliases: []string{"gpu_bus_id"}, value: func(r row) string { return r.device.GPU.BusID }},
	{name: "pci.domain", value: busPart(0)},
	{name: "pci.bus", value: busPart(1)},
	{name: "pci.device", value: busPart(2)},
	{name: "compute_cap", value: func(r row) string {
		p := product(r)
		return fmt.Sprintf("%d.%d", p.ComputeMajor, p.ComputeMinor)
	}},
	{name: "compute_mode", value: always("Default")},
	{name: "persistence_mode", value: always("Enabled")},
	{name: "display_mode", value: always("Disabled")},
	{name: "display_active", value: always("Disabled")},
	{name: "mig.mode.current", value: func(r row) string { return bracketed(migMode(r.device.GPU)) }},
	{name: "mig.mode.pending", value: func(r row) string { return bracketed(migMode(r.device.GPU)) }},
	{name: "fan.speed", unit: "%", value: func(r row) string { return bracketed(strings.TrimSuffix(fan(r.device), "%")) }},
	{name: "pstate", value: func(r row) string { return pstate(r.device) }},

	{name: "memory.total", unit: "MiB", value: func(r row) string { return megabytes(r.device.GPU.MemoryBytes) }},
	{name: "memory.reserved", unit: "MiB", value: reading(func(r gpu.Reading) string { return megabytes(r.MemoryReservedBytes) })},
	{name: "memory.used", unit: "MiB", value: reading(func(r gpu.Reading) string { return megabytes(r.MemoryUsedBytes) })},
	{name: "memory.free", unit: "MiB", value: func(r row) string { return megabytes(free(r.device)) }},
	{name: "utilization.gpu", unit: "%", value: utilization(func(r gpu.Reading) float64 { return r.UtilizationRatio })},
	{name: "utilization.memory", unit: "%", value: utilization(func(r gpu.Reading) float64 { return r.MemoryUtilization })},
	{name: "utilization.encoder", unit: "%", value: utilization(func(r gpu.Reading) float64 { return r.EncoderRatio })},
	{name: "utilization.decoder", unit: "%", value: utilization(func(r gpu.Reading) float64 { return r.DecoderRatio })},
	{name: "temperature.gpu", value: reading(func(r gpu.Reading) string { return strconv.Itoa(r.TemperatureCelsius) })},
	{name: "temperature.memory", value: reading(func(r gpu.Reading) string { return strconv.Itoa(r.MemoryTempCelsius) })},

	{name: "power.management", value: always("Enabled")},
	{name: "power.draw", unit: "W", value: reading(func(r gpu.Reading) string { return watts(r.PowerWatts) })},
	{name: "power.draw.average", unit: "W", value: reading(func(r gpu.Reading) string { return watts(r.PowerWatts) })},
	{name: "power.draw.instant", unit: "W", value: reading(func(r gpu.Reading) string { return watts(r.PowerWatts) })},
	{name: "power.limit", unit: "W", value: reading(func(r gpu.Reading) string { return watts(r.PowerLimitWatts) })},
	{name: "enforced.power.limit", unit: "W", value: reading(func(r gpu.Reading) string { return watts(r.PowerLimitWatts) })},
	{name: "power.default_limit", unit: "W", value: func(r row) string { return watts(float64(product(r).PowerLimitWatts)) }},
	{name: "power.max_limit", unit: "W", value: func(r row) string { return watts(float64(product(r).PowerLimitWatts)) }},
	{name: "clocks.current.graphics", aliases: []string{"clocks.gr"}, unit: "MHz", value: reading(func(r gpu.Reading) string { return strconv.Itoa(r.SMClockMHz) })},
	{name: "clocks.current.sm", aliases: []string{"clocks.sm"}, unit: "MHz", value: reading(func(r gpu.Reading) string { return strconv.Itoa(r.SMClockMHz) })},
	{name: "clocks.current.memory", aliases: []string{"clocks.mem"}, unit: "MHz", value: reading(func(r gpu.Reading) string { return strconv.Itoa(r.MemoryClockMHz) })},
	{name: "clocks.max.graphics", aliases: []string{"clocks.max.gr"}, unit: "MHz", value: func(r row) string { return strconv.Itoa(product(r).MaxSMClockMHz) }},
	{name: "clocks.max.sm", unit: "MHz", value: func(r row) string { return strconv.Itoa(product(r).MaxSMClockMHz) }},
	{name: "clocks.max.memory", aliases: []string{"clocks.max.mem"}, unit: "MHz", value: func(r row) string { return strconv.Itoa(product(r).MaxMemoryClockMHz) }},
	{
		name: "clocks_event_reasons.gpu_idle", aliases: []string{"clocks_throttle_reasons.gpu_idle"},
		value: reading(func(r gpu.Reading) string { return active(r.UtilizationRatio == 0) }),
	},
	{
		name: "clocks_event_reasons.hw_thermal_slowdown", aliases: []string{"clocks_throttle_reasons.hw_thermal_slowdown"},
		value: reading(func(r gpu.Reading) string { return active(r.ThermalThrottled) }),
	},
	{
		name: "clocks_event_reasons.sw_thermal_slowdown", aliases: []string{"clocks_throttle_reasons.sw_thermal_slowdown"},
		value: reading(func(r gpu.Reading) string { return active(r.ThermalThrottled) }),
	},

	{name: "ecc.mode.current", value: eccMode},
	{name: "ecc.mode.pending", value: eccMode},
	{name: "ecc.errors.corrected.volatile.total", value: ecc(func(r gpu.Reading) int64 { return r.CorrectableRemappedRows })},
	{name: "ecc.errors.corrected.aggregate.total", value: ecc(func(r gpu.Reading) int64 { return r.CorrectableRemappedRows })},
	{name: "ecc.errors.uncorrected.volatile.total", value: ecc(func(r gpu.Reading) int64 { return r.RemappedRows })},
	{name: "ecc.errors.uncorrected.aggregate.total", value: ecc(func(r gpu.Reading) int64 { return r.RemappedRows })},
	{name: "remapped_rows.correctable", value: ecc(func(r gpu.Reading) int64 { return r.CorrectableRemappedRows })},
	{name: "remapped_rows.uncorrectable", value: ecc(func(r gpu.Reading) int64 { return r.RemappedRows })},
	{name: "remapped_rows.failure", value: reading(func(r gpu.Reading) string { return map[bool]string{false: "No", true: "Yes"}[r.RowRemapFailed] })},
}, absent("serial", "vbios_version", "minor_number", "accounting.mode", "driver_model.current", "inforom.img",
	"pcie.link.gen.current", "pcie.link.gen.max", "pcie.link.width.current", "pcie.link.width.max",
	"clocks.current.video", "clocks.applications.graphics", "clocks.applications.memory",
	"retired_pages.single_bit_ecc.count", "retired_pages.double_bit.count", "retired_pages.pending")...)

// absent makes fields that the real program knows and a simulated GPU lacks.
func absent(names ...string) []field {
	var out []field
	for _, n := range names {
		out = append(out, field{name: n, value: always(notAvailable)})
	}
	return out
}

// appFields are the fields of --query-compute-apps.
var appFields = []field{
	{name: "timestamp", value: func(r row) string { return r.view.Now.Format("2006/01/02 15:04:05.000") }},
	{name: "gpu_name", value: func(r row) string { return r.device.GPU.Product }},
	{name: "gpu_bus_id", value: func(r row) string { return r.device.GPU.BusID }},
	{name: "gpu_uuid", value: func(r row) string {
		if r.process.MIG != "" {
			return r.process.MIG
		}
		return r.device.GPU.UUID
	}},
	{name: "pid", value: func(r row) string { return strconv.Itoa(r.process.PID) }},
	{name: "process_name", aliases: []string{"name"}, value: func(r row) string { return r.process.Name }},
	{name: "used_gpu_memory", aliases: []string{"used_memory"}, unit: "MiB", value: func(r row) string { return megabytes(r.process.MemoryBytes) }},
}

// free is what neither loads nor the driver hold.
func free(d Device) int64 {
	return d.GPU.MemoryBytes - d.Reading.MemoryUsedBytes - d.Reading.MemoryReservedBytes
}
