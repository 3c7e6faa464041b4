package nvml

import (
	"math"
	"slices"
	"strconv"
)

// Measure names a value that no Reading has: it is read only where Samples is asked
// for it. As Sample.Absent does, names say what they are.
type Measure string

// measure says where the driver has a value. One of field, number and gpm is set.
type measure struct {
	field  int    // nvmlDeviceGetFieldValues
	also   int    // a second field, which is added; 0 is none
	scope  uint32 // of field: a link, or what NVML counts as all
	number Number // Device.Number, from 1; 0 is none
	clock  int    // Device.Clock
	reason bool   // Device.ClockReasons
	gpm    int    // nvmlGpmMetricsGet
	times  float64
}

// percentage is what GPM gives in percent, as a ratio; mebi what it gives in MiB a
// second, in bytes.
const (
	percentage = 0.01
	mebi       = 1 << 20
)

// measures are all that Samples knows to read.
//
// Source: NVML_FI_DEV_... and NVML_GPM_METRIC_... of nvml.h.
var measures = withLinks(map[Measure]measure{ //nolint:gochecknoglobals // a table
	"ECCMode":           {field: 1},
	"ECCSingleVolatile": {field: 3}, "ECCDoubleVolatile": {field: 4}, "ECCSingleAggregate": {field: 5}, "ECCDoubleAggregate": {field: 6},
	"RetiredSingleBit": {field: 29}, "RetiredDoubleBit": {field: 30}, "RetiredPending": {field: 31},
	"RowRemapPending":  {field: 144},
	"NVLinkFlitErrors": {field: 38}, "NVLinkDataErrors": {field: 45}, "NVLinkReplays": {field: 52}, "NVLinkRecoveries": {field: 59},
	"PowerViolation": {field: 74}, "ThermalViolation": {field: 75}, "SyncBoostViolation": {field: 76}, "BoardLimitViolation": {field: 77},
	"LowUtilizationViolation": {field: 78}, "ReliabilityViolation": {field: 79},
	"AppClocksViolation": {field: 80}, "BaseClocksViolation": {field: 81},
	"PowerInstant": {field: 186, times: 0.001}, // mW

	"FanPercent": {number: NumberFan}, "PCIeTxThroughput": {number: NumberPCIeTx}, "PCIeRxThroughput": {number: NumberPCIeRx},
	"PerformanceState": {number: NumberPState}, "PCIeGeneration": {number: NumberPCIeGeneration}, "PCIeWidth": {number: NumberPCIeWidth},
	"VideoClockMHz": {clock: ClockVideo}, "ClockReasons": {reason: true},

	"SMActiveRatio": {gpm: 2, times: percentage}, "SMOccupancyRatio": {gpm: 3, times: percentage}, "IntegerActiveRatio": {gpm: 4, times: percentage},
	"TensorDFMARatio": {gpm: 6, times: percentage}, "TensorHMMARatio": {gpm: 7, times: percentage}, "TensorIMMARatio": {gpm: 9, times: percentage},
	"FP64ActiveRatio": {gpm: 11, times: percentage}, "FP32ActiveRatio": {gpm: 12, times: percentage}, "FP16ActiveRatio": {gpm: 13, times: percentage},
	"NVLinkRxBytesPerSecond": {gpm: GPMNVLinkRx, times: mebi}, "NVLinkTxBytesPerSecond": {gpm: GPMNVLinkTx, times: mebi},
})

// MostLinks is how many NVLinks have a measure: NVLinkKiB0 and so on, of both
// directions.
const MostLinks = 18

func withLinks(of map[Measure]measure) map[Measure]measure {
	for link := range MostLinks {
		of[LinkMeasure(link)] = measure{field: FieldNVLinkTx, also: FieldNVLinkRx, scope: uint32(link)}
	}
	return of
}

// LinkMeasure is the traffic of one NVLink in KiB, of both directions.
func LinkMeasure(link int) Measure { return Measure("NVLinkKiB" + strconv.Itoa(link)) }

// Known reports whether Samples can be asked for a measure.
func (m Measure) Known() bool { _, ok := measures[m]; return ok }

// ofGPM reports whether GPM gives the measure, of a MIG device its own.
func (m Measure) ofGPM() bool { return measures[m].gpm != 0 }

// more reads what is asked for beyond a Reading, in the order asked; 0 for what the
// driver does not give, which is among the absent then.
func (x *reader) more(dev Device, asked []Measure, gpm []float64) []float64 {
	if len(asked) == 0 {
		return nil
	}
	out := make([]float64, len(asked))
	for i, name := range asked {
		m := measures[name]
		if m.gpm != 0 {
			v := math.NaN()
			if at := slices.Index(x.driver.gpmAsked, m.gpm); at >= 0 && at < len(gpm) {
				v = gpm[at]
			}
			if math.IsNaN(v) {
				x.absent = append(x.absent, string(name))
				continue
			}
			out[i] = v * m.times
			continue
		}
		v, err := m.read(dev)
		if !x.has(err, string(name)) {
			continue
		}
		if out[i] = float64(v); m.times != 0 {
			out[i] *= m.times
		}
	}
	return out
}

// read asks for a value that is not GPM's.
func (m measure) read(dev Device) (int64, error) {
	switch {
	case m.number != 0:
		return dev.Number(m.number)
	case m.clock != 0:
		v, err := dev.Clock(m.clock)
		return int64(v), err
	case m.reason:
		v, err := dev.ClockReasons()
		return int64(v), err
	case m.field == 0:
		return 0, NotSupported // a measure of another release
	}
	v, err := dev.Field(m.field, m.scope)
	if err == nil && m.also != 0 {
		var more int64
		more, err = dev.Field(m.also, m.scope)
		v += more
	}
	return v, err
}

// ask says what the next readings have beyond a Reading, and what is asked of GPM for
// it.
func (d *Driver) ask(asked []Measure) {
	if slices.Equal(asked, d.asked) && d.gpmAsked != nil {
		return
	}
	d.asked, d.gpmAsked = slices.Clone(asked), slices.Clone(gpmMetrics)
	for _, name := range asked {
		if m := measures[name]; m.gpm != 0 && !slices.Contains(d.gpmAsked, m.gpm) {
			d.gpmAsked = append(d.gpmAsked, m.gpm)
		}
	}
	for _, g := range d.gpm { // what was compared was asked otherwise
		old := g.values
		g.values = gpmNone(len(d.gpmAsked))
		copy(g.values, old[:min(len(old), len(gpmMetrics))])
	}
}
