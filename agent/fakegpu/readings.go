package fakegpu

import (
	"math"
	"slices"
	"strings"
	"time"

	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/gpu"
)

// Utilization is not given while MIG is on, as on hardware.
func (d *device) Utilization() (sm, memory int, err error) {
	v, err := whole(d, "nvmlDeviceGetUtilizationRates", func(c *card) ([2]int, error) {
		if c.mig {
			return [2]int{}, nvml.NotSupported
		}
		r := d.l.read(c, "")
		return [2]int{percent(r.UtilizationRatio), percent(r.MemoryUtilization)}, nil
	})
	return v[0], v[1], err
}

func percent(ratio float64) int { return int(math.Round(100 * ratio)) }

func (d *device) Temperature() (int, error) {
	return read(d, "nvmlDeviceGetTemperature", func(r gpu.Reading) int { return r.TemperatureCelsius })
}

func (d *device) Power() (int64, error) {
	return read(d, "nvmlDeviceGetPowerUsage", func(r gpu.Reading) int64 { return int64(1000 * r.PowerWatts) })
}

func (d *device) PowerLimit() (int64, error) {
	return read(d, "nvmlDeviceGetEnforcedPowerLimit", func(r gpu.Reading) int64 { return int64(1000 * r.PowerLimitWatts) })
}

// Energy is given from Volta on.
func (d *device) Energy() (int64, error) {
	return whole(d, "nvmlDeviceGetTotalEnergyConsumption", func(c *card) (int64, error) {
		if c.product.ComputeMajor < 7 {
			return 0, nvml.NotSupported
		}
		return d.l.read(c, "").EnergyMillijoules, nil
	})
}

func (d *device) Clock(domain int) (int, error) {
	return read(d, "nvmlDeviceGetClockInfo", func(r gpu.Reading) int {
		if domain == nvml.ClockMemory {
			return r.MemoryClockMHz
		}
		return r.SMClockMHz
	})
}

func (d *device) ClockReasons() (uint64, error) {
	return read(d, "nvmlDeviceGetCurrentClocksEventReasons", func(r gpu.Reading) uint64 {
		if r.ThermalThrottled {
			return nvml.ReasonThermal
		}
		return 0
	})
}

func (d *device) PCIeReplays() (int64, error) {
	return read(d, "nvmlDeviceGetPcieReplayCounter", func(r gpu.Reading) int64 { return r.PCIeReplays })
}

// media is for engines that MIG partitions.
func (d *device) media(symbol string, f func(gpu.Reading) float64) (int, error) {
	return whole(d, symbol, func(c *card) (int, error) {
		if c.mig {
			return 0, nvml.NotSupported
		}
		return percent(f(d.l.read(c, ""))), nil
	})
}

func (d *device) EncoderUtilization() (int, error) {
	return d.media("nvmlDeviceGetEncoderUtilization", func(r gpu.Reading) float64 { return r.EncoderRatio })
}

func (d *device) DecoderUtilization() (int, error) {
	return d.media("nvmlDeviceGetDecoderUtilization", func(r gpu.Reading) float64 { return r.DecoderRatio })
}

// RemappedRows is given from Ampere's A100 on.
func (d *device) RemappedRows() (nvml.RemappedRows, error) {
	return whole(d, "nvmlDeviceGetRemappedRows", func(c *card) (nvml.RemappedRows, error) {
		if c.product.ComputeMajor < 8 {
			return nvml.RemappedRows{}, nvml.NotSupported
		}
		var out nvml.RemappedRows
		for _, m := range d.l.file.Remap {
			if m.GPU != c.index || !d.l.holds(m.After) {
				continue
			}
			since := d.l.base.Add(m.After)
			out.Failed = out.Failed || m.Failed
			out.Uncorrectable++
			out.Pending = out.Pending || m.Pending && c.mended.Before(since)
		}
		return out, nil
	})
}

func (d *device) Field(id int, scope uint32) (int64, error) {
	return whole(d, "nvmlDeviceGetFieldValues", func(c *card) (int64, error) {
		r := d.l.read(c, "")
		links := int64(c.product.NVLinks)
		switch {
		case id == nvml.FieldMemoryTemperature && c.product.MaxMemoryClockMHz < 4000: // HBM has a sensor
			return int64(r.MemoryTempCelsius), nil
		case (id == nvml.FieldNVLinkTx || id == nvml.FieldNVLinkRx) && scope == nvml.AllLinks && links > 0:
			return r.NVLinkBytes / 2 >> 10, nil
		case (id == nvml.FieldNVLinkTx || id == nvml.FieldNVLinkRx) && int64(scope) < links:
			return r.NVLinkBytes / 2 / links >> 10, nil
		case id == nvml.FieldRecoveryAction:
			return d.l.needs(c), nil
		}
		return d.l.record(c, id, r)
	})
}

// record returns what is counted of errors and of lowered clocks, as a product of its
// age has it.
func (l *Library) record(c *card, id int, r gpu.Reading) (int64, error) {
	hbm, links := c.product.MaxMemoryClockMHz < 4000, c.product.NVLinks > 0
	switch id {
	case 1: // ECC is on where the memory has it
		return int64(number(hbm)), nil
	case 3, 4, 5, 6: // ECC errors; rows that are replaced were uncorrectable
		if !hbm {
			return 0, nvml.NotSupported
		}
		if id == 4 || id == 6 {
			return r.RemappedRows, nil
		}
		return 0, nil
	case 29, 30, 31: // pages are retired before Ampere, and rows replaced from it on
		if !hbm || c.product.ComputeMajor >= 8 {
			return 0, nvml.NotSupported
		}
		return 0, nil
	case 144:
		if c.product.ComputeMajor < 8 {
			return 0, nvml.NotSupported
		}
		return 0, nil
	case 38, 45, 52, 59: // errors of NVLinks
		if !links {
			return 0, nvml.NotSupported
		}
		return 0, nil
	case 75: // ns in which heat lowered the clocks
		if r.ThermalThrottled {
			return time.Since(l.base).Nanoseconds(), nil
		}
		return 0, nil
	case 74, 76, 77, 78, 79, 80, 81:
		return 0, nil
	case 186:
		return int64(1000 * r.PowerWatts), nil
	}
	return 0, nvml.NotSupported
}

func number(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// Number returns what cards with a fan and a PCIe link of today show.
func (d *device) Number(n nvml.Number) (int64, error) {
	symbol := map[nvml.Number]string{
		nvml.NumberFan: "nvmlDeviceGetFanSpeed", nvml.NumberPCIeTx: "nvmlDeviceGetPcieThroughput", nvml.NumberPCIeRx: "nvmlDeviceGetPcieThroughput",
		nvml.NumberPState: "nvmlDeviceGetPerformanceState", nvml.NumberPCIeGeneration: "nvmlDeviceGetCurrPcieLinkGeneration",
		nvml.NumberPCIeWidth: "nvmlDeviceGetCurrPcieLinkWidth",
	}[n]
	return whole(d, symbol, func(c *card) (int64, error) {
		r := d.l.read(c, "")
		switch n {
		case nvml.NumberFan:
			if !strings.Contains(c.product.Name, "RTX") {
				return 0, nvml.NotSupported // cooled by the server's fans
			}
			return int64(30 + percent(r.UtilizationRatio)/2), nil
		case nvml.NumberPCIeTx:
			return int64(r.PCIeTxBytesPerSecond / 1000), nil
		case nvml.NumberPCIeRx:
			return int64(r.PCIeRxBytesPerSecond / 1000), nil
		case nvml.NumberPState:
			return 0, nil
		case nvml.NumberPCIeGeneration:
			return int64(min(max(c.product.ComputeMajor-4, 3), 5)), nil
		case nvml.NumberPCIeWidth:
			return 16, nil
		}
		return 0, nvml.InvalidArgument
	})
}

// needs is the gravest action that the file asks for.
func (l *Library) needs(c *card) int64 {
	action := int64(nvml.RecoveryNone)
	for _, n := range l.file.Needs {
		switch {
		case n.GPU != c.index || !l.holds(n.After):
		case n.Action == ActionReboot:
			action = nvml.RecoveryReboot
		case action == nvml.RecoveryNone && c.mended.Before(l.base.Add(n.After)):
			action = nvml.RecoveryReset
		}
	}
	return action
}

func (d *device) ComputeProcesses() ([]nvml.Process, error) {
	return ask(d, "nvmlDeviceGetComputeRunningProcesses_v3", func(c *card) ([]nvml.Process, error) {
		var out []nvml.Process
		for _, l := range d.l.loads(c) {
			if l.PID > 0 && (d.mig == "" || l.MIG == d.mig) {
				out = append(out, nvml.Process{PID: l.PID, MemoryBytes: l.MemoryBytes})
			}
		}
		return out, nil
	})
}

func (d *device) GraphicsProcesses() ([]nvml.Process, error) {
	return ask(d, "nvmlDeviceGetGraphicsRunningProcesses_v3", func(*card) ([]nvml.Process, error) { return nil, nil })
}

// GPMSupported is true from Hopper on.
func (d *device) GPMSupported() (bool, error) {
	return whole(d, "nvmlGpmQueryDeviceSupport", func(c *card) (bool, error) { return c.product.ComputeMajor >= 9, nil })
}

// counters is a GPM sample: the rates at its moment, since the loads of a file
// are steady.
type counters struct{ values map[int]float64 }

func (counters) Free() {}

func (d *device) GPMSample(gi int) (nvml.GPMSample, error) {
	symbol := "nvmlGpmSampleGet"
	if gi >= 0 {
		symbol = "nvmlGpmMigSampleGet"
	}
	return whole(d, symbol, func(c *card) (nvml.GPMSample, error) {
		if c.product.ComputeMajor < 9 {
			return nil, nvml.NotSupported
		}
		mig := ""
		if gi >= 0 {
			i := slices.IndexFunc(c.g.MIG, func(m gpu.MIGDevice) bool { return m.GI == gi })
			if i < 0 {
				return nil, nvml.InvalidArgument
			}
			mig = c.g.MIG[i].UUID
		}
		r := d.l.read(c, mig)
		v := map[int]float64{
			nvml.GPMGraphics: 100 * r.UtilizationRatio, nvml.GPMTensor: 100 * r.TensorActiveRatio,
			nvml.GPMDRAM: 100 * r.DRAMActiveRatio, nvml.GPMPCIeTx: r.PCIeTxBytesPerSecond / (1 << 20),
			nvml.GPMPCIeRx: r.PCIeRxBytesPerSecond / (1 << 20),
			// Plausible, not measured: SMs, occupancy, and the pipes by their numbers of nvml.h.
			2: 95 * r.UtilizationRatio, 3: 40 * r.UtilizationRatio, 4: 20 * r.UtilizationRatio, 6: 0, 7: 100 * r.TensorActiveRatio, 9: 0,
			11: 0, 12: 25 * r.UtilizationRatio, 13: 10 * r.UtilizationRatio,
		}
		if gi < 0 {
			v[nvml.GPMNVLinkTx] = r.NVLinkBytesPerSecond / 2 / (1 << 20)
			v[nvml.GPMNVLinkRx] = v[nvml.GPMNVLinkTx]
		}
		return counters{v}, nil
	})
}

// GPMMetrics returns the rates of the younger sample.
func (l *Library) GPMMetrics(from, to nvml.GPMSample, ids []int) ([]float64, error) {
	if err := l.enter("nvmlGpmMetricsGet", nil); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	_, ok1 := from.(counters)
	c, ok2 := to.(counters)
	if !ok1 || !ok2 {
		return nil, nvml.InvalidArgument
	}
	out := make([]float64, len(ids))
	for i, id := range ids {
		v, ok := c.values[id]
		if !ok {
			v = math.NaN()
		}
		out[i] = v
	}
	return out, nil
}
