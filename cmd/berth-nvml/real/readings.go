//go:build cgo

package real

import (
	"encoding/binary"
	"fmt"
	"math"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"berth.dev/berth/agent/nvml"
)

func (d *device) Utilization() (gpu, memory int, err error) {
	u, err := call(d.l, d.h.GetUtilizationRates, "nvmlDeviceGetUtilizationRates")
	return int(u.Gpu), int(u.Memory), err
}

func (d *device) Temperature() (int, error) {
	t, err := call(d.l, func() (uint32, gonvml.Return) { return d.h.GetTemperature(gonvml.TEMPERATURE_GPU) }, "nvmlDeviceGetTemperature")
	if err == nil || d.l.need("nvmlDeviceGetTemperatureV") != nil {
		return int(t), err
	}
	v, ret := d.h.GetTemperatureV().V1() // the older call is deprecated since CUDA 13
	return int(v.Temperature), check(ret)
}

func (d *device) Power() (int64, error) {
	v, err := call(d.l, d.h.GetPowerUsage, "nvmlDeviceGetPowerUsage")
	return int64(v), err
}

func (d *device) PowerLimit() (int64, error) {
	v, err := call(d.l, d.h.GetEnforcedPowerLimit, "nvmlDeviceGetEnforcedPowerLimit")
	return int64(v), err
}

func (d *device) Energy() (int64, error) {
	v, err := call(d.l, d.h.GetTotalEnergyConsumption, "nvmlDeviceGetTotalEnergyConsumption")
	return int64(v), err
}

func (d *device) Clock(domain int) (int, error) {
	v, err := call(d.l, func() (uint32, gonvml.Return) { return d.h.GetClockInfo(gonvml.ClockType(domain)) }, "nvmlDeviceGetClockInfo")
	return int(v), err
}

func (d *device) ClockReasons() (uint64, error) {
	if d.l.need("nvmlDeviceGetCurrentClocksEventReasons") == nil {
		v, ret := d.h.GetCurrentClocksEventReasons()
		return v, check(ret)
	}
	return call(d.l, d.h.GetCurrentClocksThrottleReasons, "nvmlDeviceGetCurrentClocksThrottleReasons")
}

func (d *device) PCIeReplays() (int64, error) {
	v, err := call(d.l, d.h.GetPcieReplayCounter, "nvmlDeviceGetPcieReplayCounter")
	return int64(v), err
}

func (d *device) EncoderUtilization() (int, error) {
	return call(d.l, func() (int, gonvml.Return) { v, _, ret := d.h.GetEncoderUtilization(); return int(v), ret }, "nvmlDeviceGetEncoderUtilization")
}

func (d *device) DecoderUtilization() (int, error) {
	return call(d.l, func() (int, gonvml.Return) { v, _, ret := d.h.GetDecoderUtilization(); return int(v), ret }, "nvmlDeviceGetDecoderUtilization")
}

func (d *device) RemappedRows() (nvml.RemappedRows, error) {
	return call(d.l, func() (nvml.RemappedRows, gonvml.Return) {
		c, u, pending, failed, ret := d.h.GetRemappedRows()
		return nvml.RemappedRows{Correctable: int64(c), Uncorrectable: int64(u), Pending: pending, Failed: failed}, ret
	}, "nvmlDeviceGetRemappedRows")
}

// Number asks the call that has a number.
func (d *device) Number(n nvml.Number) (int64, error) {
	traffic := func(counter gonvml.PcieUtilCounter) (int64, error) {
		v, err := call(d.l, func() (uint32, gonvml.Return) { return d.h.GetPcieThroughput(counter) }, "nvmlDeviceGetPcieThroughput")
		return int64(v), err
	}
	switch n {
	case nvml.NumberFan:
		v, err := call(d.l, d.h.GetFanSpeed, "nvmlDeviceGetFanSpeed")
		return int64(v), err
	case nvml.NumberPCIeTx:
		return traffic(gonvml.PCIE_UTIL_TX_BYTES)
	case nvml.NumberPCIeRx:
		return traffic(gonvml.PCIE_UTIL_RX_BYTES)
	case nvml.NumberPState:
		v, err := call(d.l, d.h.GetPerformanceState, "nvmlDeviceGetPerformanceState")
		return int64(v), err
	case nvml.NumberPCIeGeneration:
		v, err := call(d.l, d.h.GetCurrPcieLinkGeneration, "nvmlDeviceGetCurrPcieLinkGeneration")
		return int64(v), err
	case nvml.NumberPCIeWidth:
		v, err := call(d.l, d.h.GetCurrPcieLinkWidth, "nvmlDeviceGetCurrPcieLinkWidth")
		return int64(v), err
	}
	return 0, nvml.InvalidArgument
}

// Field reads one field. A fraction is cut off.
func (d *device) Field(id int, scope uint32) (int64, error) {
	if err := d.l.need("nvmlDeviceGetFieldValues"); err != nil {
		return 0, err
	}
	v := []gonvml.FieldValue{{FieldId: uint32(id), ScopeId: scope}}
	if err := check(d.h.GetFieldValues(v)); err != nil {
		return 0, err
	}
	if err := check(gonvml.Return(v[0].NvmlReturn)); err != nil {
		return 0, err
	}
	return fieldValue(gonvml.ValueType(v[0].ValueType), v[0].Value)
}

// fieldValue reads the union nvmlValue_t; every platform with a driver is
// little-endian.
func fieldValue(kind gonvml.ValueType, raw [8]byte) (int64, error) {
	word, long := binary.LittleEndian.Uint32(raw[:4]), binary.LittleEndian.Uint64(raw[:])
	switch kind {
	case gonvml.VALUE_TYPE_DOUBLE:
		return int64(math.Float64frombits(long)), nil
	case gonvml.VALUE_TYPE_UNSIGNED_INT:
		return int64(word), nil
	case gonvml.VALUE_TYPE_SIGNED_INT:
		return int64(int32(word)), nil
	case gonvml.VALUE_TYPE_UNSIGNED_SHORT:
		return int64(binary.LittleEndian.Uint16(raw[:2])), nil
	case gonvml.VALUE_TYPE_UNSIGNED_LONG, gonvml.VALUE_TYPE_UNSIGNED_LONG_LONG, gonvml.VALUE_TYPE_SIGNED_LONG_LONG:
		return int64(long), nil
	default:
		return 0, fmt.Errorf("field of type %d: %w", kind, nvml.ArgumentVersionMismatch)
	}
}

// ComputeProcesses returns CUDA processes; a client of MPS is one, though the
// driver lists it apart.
func (d *device) ComputeProcesses() ([]nvml.Process, error) {
	list, err := call(d.l, d.h.GetComputeRunningProcesses,
		"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses")
	if err != nil {
		return nil, err
	}
	clients, err := call(d.l, d.h.GetMPSComputeRunningProcesses,
		"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2", "nvmlDeviceGetMPSComputeRunningProcesses")
	if err == nil {
		list = append(list, clients...)
	}
	return once(list), nil
}

func (d *device) GraphicsProcesses() ([]nvml.Process, error) {
	list, err := call(d.l, d.h.GetGraphicsRunningProcesses,
		"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2", "nvmlDeviceGetGraphicsRunningProcesses")
	return once(list), err
}

// once keeps the first entry of each process.
func once(list []gonvml.ProcessInfo) []nvml.Process {
	seen := map[uint32]bool{}
	var out []nvml.Process
	for _, p := range list {
		if seen[p.Pid] {
			continue
		}
		seen[p.Pid] = true
		used := int64(p.UsedGpuMemory) // all ones is not available, which is -1
		out = append(out, nvml.Process{PID: int(p.Pid), MemoryBytes: used})
	}
	return out
}
