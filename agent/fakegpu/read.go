package fakegpu

import (
	"math"
	"time"

	"berth.dev/berth/core/gpu"
)

// Read returns what g, or its MIG device with the UUID mig, shows at now.
//
// loads holds what runs, in any order: at best all loads of g, each with its
// MIG, since temperature, power, clocks and energy are the whole GPU's also in
// the reading of a MIG device, as on hardware. Utilization is the sum of the
// loads, at most 1; memory is their sum and a few MiB of the driver's, at most
// what the device has. boot is when the driver was loaded: counters are 0 there.
//
// The reading depends on the arguments alone. Noise is a hash of g.UUID, the
// load's names and now cut to a second. Counters do not fall while now grows
// and loads stay; when a load is to be forgotten, use ReadFrom and Advance.
func Read(g gpu.GPU, mig string, loads []Load, faults Faults, boot, now time.Time) gpu.Reading {
	return ReadFrom(g, mig, loads, faults, Totals{At: boot}, now)
}

// ReadFrom is Read for counters that stood at from, not at zero since a boot.
// Of the loads, only what they do after from.At is added.
func ReadFrom(g gpu.GPU, mig string, loads []Load, faults Faults, from Totals, now time.Time) gpu.Reading {
	m := modelOf(g)
	loads = place(loads, mig)
	device, whole := m.busy(g, mig, loads, now, func(l Load, ratio float64) float64 {
		if len(l.Curve) > 0 || ratio == 0 || l.Asked > ratio {
			return clamp(max(ratio, l.Asked), 1)
		}
		return clamp(ratio*(1+0.02*noise(now, g.UUID, l.Namespace, l.Pod, l.Container)), 1)
	})
	to := m.advance(g, mig, loads, from, now)
	r := gpu.Reading{
		UtilizationRatio:  device,
		MemoryUtilization: 0.55 * device,
		PowerLimitWatts:   m.limitWatts,
		Xid:               g.Xid,
		EnergyMillijoules: int64(to.EnergyMillijoules),
		NVLinkBytes:       int64(to.NVLinkBytes),

		TensorActiveRatio:    0.45 * device,
		DRAMActiveRatio:      0.60 * device,
		PCIeTxBytesPerSecond: math.Round(0.8e9 * device),
		PCIeRxBytesPerSecond: math.Round(2.4e9 * device),
		NVLinkBytesPerSecond: math.Round(m.nvlink(g, loads, now)),
	}
	r.MemoryUsedBytes, r.MemoryReservedBytes = memory(g, mig, loads, now)
	if faults.Xid != 0 {
		r.Xid = faults.Xid
	}
	r.RowRemapFailed = r.Xid == 64
	if r.Xid == 63 {
		r.RemappedRows = 1
	}
	m.sensors(&r, whole, faults.Thermal, func(what string) float64 { return noise(now, g.UUID, what) })
	return r
}

// place gives loads without a MIG device the one that is read.
func place(loads []Load, mig string) []Load {
	if mig == "" {
		return loads
	}
	out := make([]Load, len(loads))
	for i, l := range loads {
		if l.MIG == "" {
			l.MIG = mig
		}
		out[i] = l
	}
	return out
}

// at is what the load does at t: nothing before Start or from End on.
func (l Load) at(t time.Time) (ratio float64, memoryBytes int64) {
	if t.Before(l.Start) || !l.End.IsZero() && !t.Before(l.End) {
		return 0, 0
	}
	ratio, memoryBytes = l.UtilizationRatio, l.MemoryBytes
	for _, p := range l.Curve {
		if t.Before(l.Start.Add(p.After)) {
			break
		}
		ratio, memoryBytes = p.UtilizationRatio, p.MemoryBytes
	}
	return clamp(ratio, 1), max(memoryBytes, 0)
}

const (
	mib = 1 << 20
	// What nvidia-smi shows as used on an idle GPU and an idle MIG device.
	idleBytes, idleMIGBytes = 4 * mib, 13 * mib
)

// memory is what is used of the device, and what the driver keeps of the GPU.
// A MIG device has no reserve: its size is already net of it.
func memory(g gpu.GPU, mig string, loads []Load, t time.Time) (used, reserved int64) {
	byMIG := map[string]int64{}
	for _, l := range loads {
		_, b := l.at(t)
		byMIG[l.MIG] += b
	}
	if mig == "" {
		reserved = g.MemoryBytes * 14 / 1000 / mib * mib
		used = byMIG[""] + idleBytes
	}
	for _, d := range g.MIG {
		if b := min(byMIG[d.UUID]+idleMIGBytes, d.MemoryBytes); mig == d.UUID {
			return b, 0
		} else if mig == "" {
			used += b
		}
	}
	return min(used, g.MemoryBytes-reserved), reserved
}

// clamp returns x, or the nearer end of 0 to high.
func clamp(x, high float64) float64 { return math.Min(math.Max(x, 0), high) }
