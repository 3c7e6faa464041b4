package fakegpu

import (
	"hash/fnv"
	"math"
	"time"

	"berth.dev/berth/core/gpu"
)

// model is how a product answers to work. Its figures are plausible, not
// measured: linear in utilization between an idle and a busy state.
type model struct {
	idleWatts, busyWatts, limitWatts float64
	idleSM, maxSM, idleMem, maxMem   int // MHz
	slices                           int // compute slices of a GPU that is partitioned with MIG
	nvlinks                          int
}

// modelOf looks the product up; an unknown one is taken for a 300 W card.
func modelOf(g gpu.GPU) model {
	p, ok := gpu.Find(g.Product)
	if !ok {
		p = gpu.Product{PowerLimitWatts: 300, MaxSMClockMHz: 1500, MaxMemoryClockMHz: 1215}
	}
	limit := float64(p.PowerLimitWatts)
	m := model{
		idleWatts: 0.13 * limit, busyWatts: 0.95 * limit, limitWatts: limit,
		idleSM: step(0.15 * float64(p.MaxSMClockMHz)), maxSM: p.MaxSMClockMHz,
		idleMem: p.MaxMemoryClockMHz, maxMem: p.MaxMemoryClockMHz,
		slices: max(p.ComputeSlices, 1), nvlinks: p.NVLinks,
	}
	if m.maxMem > 4000 { // GDDR slows down when idle, HBM does not
		m.idleMem = 405
	}
	return m
}

// step rounds to the 15 MHz that SM clocks move in.
func step(mhz float64) int { return int(math.Round(mhz/15)) * 15 }

// busy is the utilization at t of the device that is read and of the whole GPU,
// both 0-1. adjust may change each load's ratio; nil leaves it.
func (m model) busy(g gpu.GPU, mig string, loads []Load, t time.Time, adjust func(Load, float64) float64) (device, whole float64) {
	byMIG := map[string]float64{}
	for _, l := range loads {
		ratio, _ := l.at(t)
		if adjust != nil {
			ratio = adjust(l, ratio)
		}
		if l.MIG == "" && g.MIGEnabled {
			ratio *= clamp(float64(l.MilliGPU)/1000, 1)
		}
		byMIG[l.MIG] += ratio
	}
	whole = byMIG[""]
	for _, d := range g.MIG {
		whole += math.Min(byMIG[d.UUID], 1) * float64(d.Slices) / float64(m.slices)
	}
	whole = clamp(whole, 1)
	if mig == "" {
		return whole, whole
	}
	return clamp(byMIG[mig], 1), whole
}

// nvlink is the traffic at t over all links, both directions, in bytes a
// second: 30% of what the links carry (25 GB/s each way) at full utilization.
func (m model) nvlink(g gpu.GPU, loads []Load, t time.Time) float64 {
	if g.Clique == 0 {
		return 0
	}
	var sum float64
	for _, l := range loads {
		if ratio, _ := l.at(t); l.Peers > 0 {
			sum += ratio
		}
	}
	return 0.3 * clamp(sum, 1) * float64(m.nvlinks) * 50e9
}

// sensors fills in what follows the utilization of the whole GPU. n gives noise
// from -1 to 1 by name.
func (m model) sensors(r *gpu.Reading, whole float64, thermal bool, n func(string) float64) {
	r.TemperatureCelsius = int(math.Round(31 + 42*whole + n("temperature")))
	r.SMClockMHz, r.MemoryClockMHz = m.idleSM, m.idleMem
	watts := m.idleWatts + (m.busyWatts-m.idleWatts)*whole
	if whole > 0 {
		r.SMClockMHz = min(m.maxSM, m.maxSM-15*int(math.Round(3*whole+n("clock"))))
		r.MemoryClockMHz = m.maxMem
	}
	if thermal {
		r.ThermalThrottled = true
		r.TemperatureCelsius = 92
		r.SMClockMHz = min(r.SMClockMHz, step(0.45*float64(m.maxSM)))
		watts = m.idleWatts + 0.6*(watts-m.idleWatts)
	}
	r.MemoryTempCelsius = r.TemperatureCelsius + 4
	r.PowerWatts = clamp(watts*(1+0.015*n("power")), m.limitWatts)
}

// noise is a number from -1 to 1 that depends on what and on the second of now.
func noise(now time.Time, what ...string) float64 {
	h := fnv.New64a()
	for _, w := range what {
		h.Write([]byte(w))
		h.Write([]byte{0})
	}
	x := h.Sum64() ^ uint64(now.Unix())*0x9e3779b97f4a7c15
	// The finalizer of splitmix64: nearby seconds give unrelated numbers.
	// Source: Steele, Lea and Flood, Fast Splittable Pseudorandom Number
	// Generators, OOPSLA 2014.
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11)/(1<<52) - 1
}
