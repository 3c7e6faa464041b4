package nvml

import (
	"errors"
	"math"
	"slices"
	"time"

	"berth.dev/berth/core/gpu"
)

// Samples asks what every GPU and MIG device of the last snapshot shows at now, and
// the measures named, which cost nothing where they are not. drift says that a new snapshot is due: MIG devices came or went. The error is
// ErrReload, or why there is no snapshot.
func (d *Driver) Samples(now time.Time, more ...Measure) (samples []Sample, drift bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.gpus) == 0 {
		if s := d.snapshot(); s.Failed != "" {
			return nil, false, errors.Join(d.gone, errors.New(s.Failed))
		}
	}
	d.ask(more)
	samples = make([]Sample, 0, 8*len(d.gpus))
	for _, g := range d.gpus {
		if g.facts.Lost || d.lost[g.facts.UUID] {
			continue
		}
		samples = d.sample(samples, g, now)
		if d.gone != nil {
			return nil, false, d.gone
		}
	}
	return samples, d.drift, nil
}

// sample asks for one GPU and its MIG devices. It gives up on a GPU that is
// lost half-way.
func (d *Driver) sample(out []Sample, g *card, now time.Time) []Sample {
	first := len(out)
	whole := reader{driver: d, uuid: g.facts.UUID, drifts: &d.drift}
	whole.r.Xid = d.xids[xidKey{g.facts.UUID, anywhere}]
	whole.sensors(g.device)
	whole.work(g.device)
	whole.memory(g.device)
	whole.extra = whole.more(g.device, d.asked, whole.profile(g, -1, now))
	if len(g.cuts) == 0 {
		whole.running(g.device)
	}
	out = append(out, whole.sample())
	for i := range g.cuts {
		c := &g.cuts[i]
		part := reader{driver: d, uuid: c.UUID, of: g.facts.UUID, cut: true, r: whole.board()}
		for _, name := range whole.absent {
			if slices.Contains(ofBoard, name) {
				part.absent = append(part.absent, name)
			}
		}
		part.r.Xid = d.xids[xidKey{g.facts.UUID, -1}]
		if xid := d.xids[xidKey{g.facts.UUID, c.GI}]; xid != 0 {
			part.r.Xid = xid
		}
		part.drifts = &d.drift
		part.memory(c.device)
		part.inherit(&whole, d.asked, part.profile(g, c.GI, now))
		part.running(c.device)
		out = append(out, part.sample())
	}
	d.recount(g)
	if d.lost[g.facts.UUID] {
		return out[:first]
	}
	return out
}

// ofBoard names the fields of a Reading that a MIG device shares with its GPU.
var ofBoard = []string{
	"TemperatureCelsius", "MemoryTempCelsius", "PowerWatts", "PowerLimitWatts", "SMClockMHz", "MemoryClockMHz",
	"EnergyMillijoules", "PCIeReplays", "ThermalThrottled", "NVLinkBytes", "NVLinkBytesPerSecond",
	"RemappedRows", "CorrectableRemappedRows", "RowRemapFailed",
}

// recount looks whether the MIG devices are where they were.
func (d *Driver) recount(g *card) {
	for i, uuid := range g.slots {
		_, err := g.device.MIGDevice(i)
		if (err == nil) != (uuid != "") && d.note(g.facts.UUID, unless(err, NotFound, InvalidArgument)) == nil {
			d.drift = true
			return
		}
	}
}

// reader fills in one Reading.
type reader struct {
	driver *Driver
	uuid   string
	of     string // UUID of the GPU, for a MIG device
	cut    bool   // a MIG device
	drifts *bool
	r      gpu.Reading
	absent []string
	extra  []float64 // of Driver.asked
	runs   []Process
}

func (x *reader) sample() Sample {
	slices.Sort(x.absent)
	return Sample{UUID: x.uuid, Reading: x.r, Absent: x.absent, More: x.extra, Processes: x.runs}
}

// has reports whether a call gave a value, and notes the fields it did not give.
func (x *reader) has(err error, fields ...string) bool {
	if err == nil {
		return true
	}
	x.absent = append(x.absent, fields...)
	on := x.uuid
	if x.cut {
		on = x.of
		// The handle of a MIG device that was removed is void.
		if code := codeOf(err); code == NotFound || code == InvalidArgument {
			*x.drifts = true
		}
	}
	_ = x.driver.note(on, err)
	return false
}

// board is what a MIG device shares with its GPU.
func (x *reader) board() gpu.Reading {
	r := x.r
	return gpu.Reading{
		TemperatureCelsius: r.TemperatureCelsius, MemoryTempCelsius: r.MemoryTempCelsius,
		PowerWatts: r.PowerWatts, PowerLimitWatts: r.PowerLimitWatts,
		SMClockMHz: r.SMClockMHz, MemoryClockMHz: r.MemoryClockMHz,
		EnergyMillijoules: r.EnergyMillijoules, PCIeReplays: r.PCIeReplays, Xid: r.Xid,
		ThermalThrottled: r.ThermalThrottled, NVLinkBytes: r.NVLinkBytes, NVLinkBytesPerSecond: r.NVLinkBytesPerSecond,
		RemappedRows: r.RemappedRows, CorrectableRemappedRows: r.CorrectableRemappedRows, RowRemapFailed: r.RowRemapFailed,
	}
}

// sensors reads temperature, power, clocks and the counters of errors.
func (x *reader) sensors(dev Device) {
	r := &x.r
	if v, err := dev.Temperature(); x.has(err, "TemperatureCelsius") {
		r.TemperatureCelsius = v
	}
	if v, err := dev.Field(FieldMemoryTemperature, 0); x.has(err, "MemoryTempCelsius") {
		r.MemoryTempCelsius = int(v)
	}
	if v, err := dev.Power(); x.has(err, "PowerWatts") {
		r.PowerWatts = float64(v) / 1000
	}
	if v, err := dev.PowerLimit(); x.has(err, "PowerLimitWatts") {
		r.PowerLimitWatts = float64(v) / 1000
	}
	if v, err := dev.Energy(); x.has(err, "EnergyMillijoules") {
		r.EnergyMillijoules = v
	}
	if v, err := dev.Clock(ClockSM); x.has(err, "SMClockMHz") {
		r.SMClockMHz = v
	}
	if v, err := dev.Clock(ClockMemory); x.has(err, "MemoryClockMHz") {
		r.MemoryClockMHz = v
	}
	if v, err := dev.ClockReasons(); x.has(err, "ThermalThrottled") {
		r.ThermalThrottled = v&ReasonThermal != 0
	}
	if v, err := dev.PCIeReplays(); x.has(err, "PCIeReplays") {
		r.PCIeReplays = v
	}
	if v, err := dev.RemappedRows(); x.has(err, "RemappedRows", "CorrectableRemappedRows", "RowRemapFailed") {
		r.RemappedRows, r.CorrectableRemappedRows, r.RowRemapFailed = v.Uncorrectable, v.Correctable, v.Failed
	}
	tx, err := dev.Field(FieldNVLinkTx, AllLinks)
	if x.has(err, "NVLinkBytes") {
		if rx, err := dev.Field(FieldNVLinkRx, AllLinks); x.has(err, "NVLinkBytes") {
			r.NVLinkBytes = (tx + rx) << 10 // the driver counts KiB
		}
	}
}

// work reads the utilization of a whole GPU. A GPU with MIG on gives none of
// it.
func (x *reader) work(dev Device) {
	if sm, mem, err := dev.Utilization(); x.has(err, "UtilizationRatio", "MemoryUtilization") {
		x.r.UtilizationRatio, x.r.MemoryUtilization = float64(sm)/100, float64(mem)/100
	}
	if v, err := dev.EncoderUtilization(); x.has(err, "EncoderRatio") {
		x.r.EncoderRatio = float64(v) / 100
	}
	if v, err := dev.DecoderUtilization(); x.has(err, "DecoderRatio") {
		x.r.DecoderRatio = float64(v) / 100
	}
}

func (x *reader) memory(dev Device) {
	if m, err := dev.Memory(); x.has(err, "MemoryUsedBytes", "MemoryReservedBytes") {
		x.r.MemoryUsedBytes, x.r.MemoryReservedBytes = m.Used, m.Reserved
	}
	if x.cut {
		x.absent = append(x.absent, "MemoryUtilization", "EncoderRatio", "DecoderRatio")
	}
}

// profile fills in what GPM gives: for a MIG device its utilization too, and
// for a GPU with MIG on, where it gives no other.
func (x *reader) profile(g *card, gi int, now time.Time) (compared []float64) {
	v := x.driver.compare(g, gi, now)
	percent := func(i int, to *float64, field string) {
		if math.IsNaN(v[i]) {
			x.absent = append(x.absent, field)
			return
		}
		*to = min(max(v[i]/100, 0), 1)
	}
	rate := func(to *float64, field string, is ...int) {
		*to = 0
		for _, i := range is {
			if math.IsNaN(v[i]) {
				x.absent = append(x.absent, field)
				return
			}
			*to += math.Round(v[i] * (1 << 20)) // MiB a second
		}
	}
	if at := slices.Index(x.absent, "UtilizationRatio"); at >= 0 {
		x.absent = slices.Delete(x.absent, at, at+1)
		percent(0, &x.r.UtilizationRatio, "UtilizationRatio")
	} else if x.cut {
		percent(0, &x.r.UtilizationRatio, "UtilizationRatio")
	}
	percent(1, &x.r.TensorActiveRatio, "TensorActiveRatio")
	percent(2, &x.r.DRAMActiveRatio, "DRAMActiveRatio")
	rate(&x.r.PCIeTxBytesPerSecond, "PCIeTxBytesPerSecond", 3)
	rate(&x.r.PCIeRxBytesPerSecond, "PCIeRxBytesPerSecond", 4)
	if !x.cut {
		rate(&x.r.NVLinkBytesPerSecond, "NVLinkBytesPerSecond", 5, 6)
	}
	return v
}

// inherit gives a MIG device what is asked for beyond a Reading: of GPM its own, and
// of the rest its GPU's.
func (x *reader) inherit(whole *reader, asked []Measure, compared []float64) {
	x.extra = slices.Clone(whole.extra)
	for i, name := range asked {
		switch {
		case name.ofGPM():
			x.extra[i] = x.more(nil, asked[i:i+1], compared)[0]
		case slices.Contains(whole.absent, string(name)):
			x.absent = append(x.absent, string(name))
		}
	}
}

// running lists processes, those that compute and draw but once.
func (x *reader) running(dev Device) {
	compute, err1 := dev.ComputeProcesses()
	graphics, err2 := dev.GraphicsProcesses()
	for _, err := range []error{err1, err2} {
		_ = x.has(err)
	}
	x.runs = compute
	for _, p := range graphics {
		if !slices.ContainsFunc(compute, func(q Process) bool { return q.PID == p.PID }) {
			x.runs = append(x.runs, p)
		}
	}
}
