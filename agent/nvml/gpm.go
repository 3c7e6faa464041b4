package nvml

import (
	"math"
	"time"
)

// gpmMetrics is what is always asked of two samples, before what Driver.ask adds;
// reader.profile counts on the order.
var gpmMetrics = []int{GPMGraphics, GPMTensor, GPMDRAM, GPMPCIeTx, GPMPCIeRx, GPMNVLinkRx, GPMNVLinkTx}

// gpmApart is how far apart two samples have to be, says nvml.h.
const gpmApart = 100 * time.Millisecond

// gpmKey names a device: a GPU, and a GPU instance of it or -1.
type gpmKey struct {
	uuid string
	gi   int
}

// gpm is the counters of a device at one moment, and what they gave when they
// were last compared.
type gpm struct {
	last   GPMSample
	at     time.Time
	values []float64
	used   bool // the device is in the last snapshot
}

// gpmNone stands for values that the driver does not give.
func gpmNone(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = math.NaN()
	}
	return out
}

// primeGPM takes a first sample of every new device, so the first Samples
// has something to compare with, and forgets devices that are gone.
func (d *Driver) primeGPM() {
	for _, g := range d.gpm {
		g.used = false
	}
	for _, g := range d.gpus {
		if g.facts.Lost {
			continue
		}
		if ok, err := g.device.GPMSupported(); err != nil || !ok {
			continue
		}
		d.prime(g, -1)
		for _, c := range g.cuts {
			d.prime(g, c.GI)
		}
	}
	for key, g := range d.gpm {
		if !g.used {
			g.last.Free()
			delete(d.gpm, key)
		}
	}
}

func (d *Driver) prime(g *card, gi int) {
	key := gpmKey{g.facts.UUID, gi}
	if have := d.gpm[key]; have != nil {
		have.used = true
		return
	}
	if s, err := g.device.GPMSample(gi); err == nil {
		d.gpm[key] = &gpm{last: s, at: time.Now(), values: gpmNone(max(len(gpmMetrics), len(d.gpmAsked))), used: true}
	}
}

// compare gives gpmAsked of a device since the sample before. When that is
// too young, it is kept, and what was given last is given again.
func (d *Driver) compare(g *card, gi int, now time.Time) []float64 {
	have := d.gpm[gpmKey{g.facts.UUID, gi}]
	if have == nil {
		return gpmNone(len(d.gpmAsked))
	}
	if now.Sub(have.at) < gpmApart {
		return have.values
	}
	next, err := g.device.GPMSample(gi)
	if d.note(g.facts.UUID, err) != nil {
		return gpmNone(len(d.gpmAsked))
	}
	values, err := d.lib.GPMMetrics(have.last, next, d.gpmAsked)
	if d.note(g.facts.UUID, err) != nil || len(values) != len(d.gpmAsked) {
		values = gpmNone(len(d.gpmAsked))
	}
	have.last.Free()
	have.last, have.at, have.values = next, now, values
	return values
}
