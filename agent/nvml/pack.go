package nvml

import (
	"encoding/binary"
	"errors"
	"math"

	"berth.dev/berth/core/gpu"
)

// packed is samples as bytes, which JSON carries as base64: field names and decimal
// numbers of 64 devices were a quarter of what a scrape costs. Both sides are of one
// release; protocol tells others apart.
type packed []byte

var errPacked = errors.New("samples that are cut short")

// packer writes values, or reads them: what is done to a sample is written once for
// both, so the two cannot differ.
type packer struct {
	reads bool
	b     []byte
	bad   bool
	names map[string]string // texts seen before, of which a reader makes no other
}

// pack writes samples.
func pack(samples []Sample) packed {
	p := &packer{b: make([]byte, 0, 64+320*len(samples))}
	n := len(samples)
	p.length(&n)
	for i := range samples {
		p.sample(&samples[i])
	}
	return p.b
}

// unpack reads what pack has written. names keeps texts from one answer to the next.
func unpack(b packed, names map[string]string) ([]Sample, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if len(names) > 4096 { // devices came and went
		clear(names)
	}
	p := &packer{reads: true, b: b, names: names}
	n := 0
	p.length(&n)
	out := make([]Sample, n)
	for i := range out {
		p.sample(&out[i])
	}
	if p.bad || len(p.b) > 0 {
		return nil, errPacked
	}
	return out, nil
}

func (p *packer) sample(s *Sample) {
	p.text(&s.UUID)
	p.reading(&s.Reading)
	n := len(s.Absent)
	if p.length(&n); p.reads && n > 0 {
		s.Absent = make([]string, n)
	}
	for i := range s.Absent {
		p.text(&s.Absent[i])
	}
	n = len(s.More)
	if p.length(&n); p.reads && n > 0 {
		s.More = make([]float64, n)
	}
	for i := range s.More {
		p.float(&s.More[i])
	}
	n = len(s.Processes)
	if p.length(&n); p.reads && n > 0 {
		s.Processes = make([]Process, n)
	}
	for i := range s.Processes {
		p.int(&s.Processes[i].PID)
		p.long(&s.Processes[i].MemoryBytes)
	}
}

// reading has every field of a Reading, as a test holds it to.
func (p *packer) reading(r *gpu.Reading) {
	for _, f := range []*float64{
		&r.UtilizationRatio, &r.MemoryUtilization, &r.PowerWatts, &r.PowerLimitWatts, &r.TensorActiveRatio, &r.DRAMActiveRatio,
		&r.PCIeTxBytesPerSecond, &r.PCIeRxBytesPerSecond, &r.NVLinkBytesPerSecond, &r.EncoderRatio, &r.DecoderRatio,
	} {
		p.float(f)
	}
	for _, i := range []*int64{
		&r.MemoryUsedBytes, &r.MemoryReservedBytes, &r.EnergyMillijoules, &r.PCIeReplays, &r.NVLinkBytes, &r.RemappedRows, &r.CorrectableRemappedRows,
	} {
		p.long(i)
	}
	for _, i := range []*int{&r.TemperatureCelsius, &r.MemoryTempCelsius, &r.SMClockMHz, &r.MemoryClockMHz, &r.Xid} {
		p.int(i)
	}
	p.flag(&r.ThermalThrottled)
	p.flag(&r.RowRemapFailed)
}

// length is of a list: at most as many as bytes are left.
func (p *packer) length(n *int) {
	if p.int(n); p.reads && (*n < 0 || *n > len(p.b)) {
		*n, p.bad = 0, true
	}
}

func (p *packer) int(v *int) {
	long := int64(*v)
	p.long(&long)
	*v = int(long)
}

func (p *packer) long(v *int64) {
	if !p.reads {
		p.b = binary.AppendVarint(p.b, *v)
		return
	}
	got, n := binary.Varint(p.b)
	if n <= 0 {
		p.b, p.bad, *v = nil, true, 0
		return
	}
	*v, p.b = got, p.b[n:]
}

// float takes a byte if it is 0, as most ratios of idle devices are.
func (p *packer) float(v *float64) {
	is := *v != 0
	p.flag(&is)
	switch {
	case !is:
		*v = 0
	case !p.reads:
		p.b = binary.LittleEndian.AppendUint64(p.b, math.Float64bits(*v))
	case len(p.b) < 8:
		p.b, p.bad = nil, true
	default:
		*v, p.b = math.Float64frombits(binary.LittleEndian.Uint64(p.b)), p.b[8:]
	}
}

func (p *packer) flag(v *bool) {
	switch {
	case !p.reads && *v:
		p.b = append(p.b, 1)
	case !p.reads:
		p.b = append(p.b, 0)
	case len(p.b) == 0:
		p.bad = true
	default:
		*v, p.b = p.b[0] != 0, p.b[1:]
	}
}

func (p *packer) text(v *string) {
	n := len(*v)
	p.length(&n)
	switch {
	case !p.reads:
		p.b = append(p.b, *v...)
	case n > len(p.b):
		p.bad = true
	default:
		known, ok := p.names[string(p.b[:n])]
		if !ok {
			known = string(p.b[:n])
			p.names[known] = known
		}
		*v, p.b = known, p.b[n:]
	}
}
