package fakegpu_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/agent/fakegpu"
	"berth.dev/berth/core/gpu"
)

const gib = 1 << 30

var boot = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return boot.Add(d) }

func a100() gpu.GPU {
	return gpu.GPU{UUID: "GPU-a", Product: "NVIDIA A100-SXM4-40GB", MemoryBytes: 40 * gib, Clique: 1, Healthy: true}
}

// cut is an A100 with a MIG device of 3 slices of 7 and one of 1.
func cut() gpu.GPU {
	g := a100()
	g.MIGEnabled = true
	g.MIG = []gpu.MIGDevice{
		{UUID: "MIG-big", Profile: "3g.20gb", GI: 1, Slices: 3, MemoryBytes: 20 * gib},
		{UUID: "MIG-small", Profile: "1g.5gb", GI: 7, Slices: 1, MemoryBytes: 5 * gib},
	}
	return g
}

// steady has a curve of one point, so that its readings carry no noise.
func steady(pod string, ratio float64, memoryBytes int64) fakegpu.Load {
	return fakegpu.Load{
		Namespace: "ns", Pod: pod, Container: "c", MilliGPU: 1000, Start: boot,
		Curve: []fakegpu.Point{{UtilizationRatio: ratio, MemoryBytes: memoryBytes}},
	}
}

func TestRead(t *testing.T) {
	rising := fakegpu.Load{UtilizationRatio: 0.1, Start: after(time.Minute), End: after(time.Hour), Curve: []fakegpu.Point{
		{After: time.Minute, UtilizationRatio: 0.5, MemoryBytes: gib},
		{After: 2 * time.Minute, UtilizationRatio: 0.9, MemoryBytes: 2 * gib},
	}}
	half := steady("half", 0.5, 4*gib)
	half.MilliGPU = 1000 * 3 / 7
	onBig, onSmall := steady("big", 1, 4*gib), steady("small", 0.5, gib)
	onBig.MIG, onSmall.MIG = "MIG-big", "MIG-small"
	for _, c := range []struct {
		name     string
		gpu      gpu.GPU
		mig      string
		loads    []fakegpu.Load
		at       time.Duration
		ratio    float64
		usedMiB  int64
		notExact bool // compare the ratio to 0.03
	}{
		{"an idle GPU shows what the driver uses", a100(), "", nil, time.Minute, 0, 4, false},
		{"a load before its start does not count", a100(), "", []fakegpu.Load{rising}, 59 * time.Second, 0, 4, false},
		{"before the first point the constant holds", a100(), "", []fakegpu.Load{rising}, 90 * time.Second, 0.1, 4, false},
		{"a curve steps at its points", a100(), "", []fakegpu.Load{rising}, 2 * time.Minute, 0.5, 1028, false},
		{"the last point holds", a100(), "", []fakegpu.Load{rising}, 59 * time.Minute, 0.9, 2052, false},
		{"a load that ended does not count", a100(), "", []fakegpu.Load{rising}, time.Hour, 0, 4, false},
		{
			"time-slicing shares add up to no more than the GPU", a100(), "",
			[]fakegpu.Load{steady("a", 0.7, gib), steady("b", 0.7, gib)},
			time.Minute, 1, 2052, false,
		},
		// 40960 MiB less the 573 that the driver reserves.
		{"memory is never more than there is", a100(), "", []fakegpu.Load{steady("a", 1, 99*gib)}, time.Minute, 1, 40387, false},
		{
			"a constant load moves a little", a100(), "",
			[]fakegpu.Load{{UtilizationRatio: 0.8, MemoryBytes: gib, Start: boot}},
			time.Minute, 0.8, 1028, true,
		},
		{"a MIG device shows its own load", cut(), "MIG-small", []fakegpu.Load{onBig, onSmall}, time.Minute, 0.5, 1037, false},
		{"a load without MIG is of the MIG device that is read", cut(), "MIG-big", []fakegpu.Load{half}, time.Minute, 0.5, 4109, false},
		// 3/7 x 1 + 1/7 x 0.5
		{"the whole GPU is the sum of its MIG devices by slices", cut(), "", []fakegpu.Load{onBig, onSmall}, time.Minute, 0.5, 5150, false},
		// 0.428 x 0.5
		{"a load without MIG counts by what it holds", cut(), "", []fakegpu.Load{half}, time.Minute, 0.214, 4126, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := fakegpu.Read(c.gpu, c.mig, c.loads, fakegpu.Faults{}, boot, after(c.at))
			slack := 1e-9
			if c.notExact {
				slack = 0.03
			}
			if d := r.UtilizationRatio - c.ratio; d > slack || d < -slack {
				t.Errorf("UtilizationRatio = %v, want %v", r.UtilizationRatio, c.ratio)
			}
			if got := r.MemoryUsedBytes >> 20; got != c.usedMiB {
				t.Errorf("MemoryUsedBytes = %d MiB, want %d", got, c.usedMiB)
			}
		})
	}
}

func TestSensorsFollowTheLoad(t *testing.T) {
	idle := fakegpu.Read(a100(), "", nil, fakegpu.Faults{}, boot, after(time.Minute))
	full := fakegpu.Read(a100(), "", []fakegpu.Load{steady("a", 1, gib)}, fakegpu.Faults{}, boot, after(time.Minute))
	if !(idle.TemperatureCelsius+30 < full.TemperatureCelsius && 4*idle.PowerWatts < full.PowerWatts && 4*idle.SMClockMHz < full.SMClockMHz) {
		t.Errorf("idle %+v\nfull %+v: want a full GPU to be hotter, faster and to draw more", idle, full)
	}
	if full.PowerLimitWatts != 400 || full.SMClockMHz > 1410 {
		t.Errorf("full %+v, want the limits of an A100: 400 W and 1410 MHz", full)
	}
}

func TestFaults(t *testing.T) {
	loads := []fakegpu.Load{steady("a", 1, gib)}
	ok := fakegpu.Read(a100(), "", loads, fakegpu.Faults{}, boot, after(time.Minute))
	hot := fakegpu.Read(a100(), "", loads, fakegpu.Faults{Thermal: true}, boot, after(time.Minute))
	if hot.TemperatureCelsius != 92 || !hot.ThermalThrottled || hot.SMClockMHz >= ok.SMClockMHz/2 || hot.PowerWatts >= ok.PowerWatts {
		t.Errorf("thermal fault reads %+v, want 92 C and throttled clocks", hot)
	}
	g := a100()
	g.Xid = 13
	if r := fakegpu.Read(g, "", nil, fakegpu.Faults{}, boot, after(0)); r.Xid != 13 {
		t.Errorf("Xid = %d, want the GPU's 13", r.Xid)
	}
	if r := fakegpu.Read(g, "", nil, fakegpu.Faults{Xid: 63}, boot, after(0)); r.Xid != 63 || r.RemappedRows != 1 || r.RowRemapFailed {
		t.Errorf("reading with Xid 63 = %+v, want one remapped row", r)
	}
	if r := fakegpu.Read(g, "", nil, fakegpu.Faults{Xid: 64}, boot, after(0)); !r.RowRemapFailed {
		t.Errorf("reading with Xid 64 = %+v, want a failed remap", r)
	}
}

func TestNVLinkCarriesOnlyWorkOnSeveralGPUs(t *testing.T) {
	alone, among := steady("a", 1, gib), steady("a", 1, gib)
	among.Peers = 7
	if r := fakegpu.Read(a100(), "", []fakegpu.Load{alone}, fakegpu.Faults{}, boot, after(time.Minute)); r.NVLinkBytes != 0 {
		t.Errorf("a load on one GPU moved %d bytes over NVLink, want 0", r.NVLinkBytes)
	}
	r := fakegpu.Read(a100(), "", []fakegpu.Load{among}, fakegpu.Faults{}, boot, after(time.Minute))
	want := int64(60 * r.NVLinkBytesPerSecond)
	if d := r.NVLinkBytes - want; d < -1 || d > 1 || want == 0 {
		t.Errorf("NVLinkBytes = %d after 60 s at %v B/s, want %d", r.NVLinkBytes, r.NVLinkBytesPerSecond, want)
	}
}

// Between 52 W idle and 380 W busy, an hour idle and an hour at 0.5:
// 3600 x 52 + 3600 x 216 = 964,800 J.
func TestEnergyIsPowerTimesTime(t *testing.T) {
	l := steady("a", 0.5, gib)
	l.Start, l.End = after(time.Hour), after(2*time.Hour)
	for _, now := range []time.Duration{2 * time.Hour, 3 * time.Hour} {
		idle := int64(now-2*time.Hour) / int64(time.Second) * 52_000
		r := fakegpu.Read(a100(), "", []fakegpu.Load{l}, fakegpu.Faults{}, boot, after(now))
		if want := 964_800_000 + idle; r.EnergyMillijoules != want {
			t.Errorf("after %v: %d mJ, want %d", now, r.EnergyMillijoules, want)
		}
	}
	if r := fakegpu.Read(a100(), "", nil, fakegpu.Faults{}, time.Time{}, after(0)); r.EnergyMillijoules != 0 {
		t.Errorf("with an unknown boot: %d mJ, want 0", r.EnergyMillijoules)
	}
}

// someLoads is up to four loads of any shape on g.
func someLoads(r *rand.Rand, g gpu.GPU) []fakegpu.Load {
	var out []fakegpu.Load
	for range r.IntN(5) {
		l := fakegpu.Load{
			Pod: string(rune('a' + r.IntN(4))), MilliGPU: r.Int64N(1001), UtilizationRatio: r.Float64() * 1.5,
			MemoryBytes: r.Int64N(50 * gib), Start: after(time.Duration(r.IntN(100)) * time.Second), Peers: r.IntN(2),
		}
		if r.IntN(2) == 0 {
			l.End = l.Start.Add(time.Duration(r.IntN(100)) * time.Second)
		}
		if len(g.MIG) > 0 && r.IntN(2) == 0 {
			l.MIG = g.MIG[r.IntN(len(g.MIG))].UUID
		}
		for i := range r.IntN(3) {
			l.Curve = append(l.Curve, fakegpu.Point{After: time.Duration(30*i) * time.Second, UtilizationRatio: r.Float64(), MemoryBytes: r.Int64N(50 * gib)})
		}
		out = append(out, l)
	}
	return out
}

func TestEveryReadingIsWithinBounds(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := []gpu.GPU{a100(), cut()}[r.IntN(2)]
		loads := someLoads(r, g)
		mig, size := "", g.MemoryBytes
		if len(g.MIG) > 0 && r.IntN(2) == 0 {
			d := g.MIG[r.IntN(len(g.MIG))]
			mig, size = d.UUID, d.MemoryBytes
		}
		faults := fakegpu.Faults{Thermal: r.IntN(4) == 0, Xid: r.IntN(2) * 79}
		var before gpu.Reading
		for s := 0; s < 250; s += 1 + r.IntN(40) {
			now := after(time.Duration(s) * time.Second)
			got := fakegpu.Read(g, mig, loads, faults, boot, now)
			if d := cmp.Diff(got, fakegpu.Read(g, mig, loads, faults, boot, now)); d != "" {
				t.Fatalf("seed %d: equal arguments read differently:\n%s", seed, d)
			}
			for _, x := range []float64{got.UtilizationRatio, got.MemoryUtilization, got.TensorActiveRatio, got.DRAMActiveRatio} {
				if x < 0 || x > 1 {
					t.Fatalf("seed %d at %d s: ratio %v of %+v", seed, s, x, got)
				}
			}
			switch {
			case got.MemoryUsedBytes < 0 || got.MemoryUsedBytes+got.MemoryReservedBytes > size:
				t.Fatalf("seed %d at %d s: memory of %+v, want at most %d", seed, s, got, size)
			case got.PowerWatts <= 0 || got.PowerWatts > got.PowerLimitWatts:
				t.Fatalf("seed %d at %d s: power of %+v", seed, s, got)
			case got.SMClockMHz <= 0 || got.SMClockMHz > 1410 || got.TemperatureCelsius < 25 || got.TemperatureCelsius > 92:
				t.Fatalf("seed %d at %d s: clock or temperature of %+v", seed, s, got)
			case got.EnergyMillijoules < before.EnergyMillijoules || got.NVLinkBytes < before.NVLinkBytes:
				t.Fatalf("seed %d at %d s: a counter fell from %+v to %+v", seed, s, before, got)
			}
			before = got
		}
	}
}

func TestForgettingEndedLoadsChangesNoReading(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 2))
		g := []gpu.GPU{a100(), cut()}[r.IntN(2)]
		loads := someLoads(r, g)
		at := after(time.Duration(r.IntN(200)) * time.Second)
		totals := fakegpu.Advance(g, loads, fakegpu.Totals{At: boot}, at)
		var kept []fakegpu.Load
		for _, l := range loads {
			if l.End.IsZero() || l.End.After(at) {
				kept = append(kept, l)
			}
		}
		now := at.Add(time.Duration(r.IntN(100)) * time.Second)
		want := fakegpu.Read(g, "", loads, fakegpu.Faults{}, boot, now)
		got := fakegpu.ReadFrom(g, "", kept, fakegpu.Faults{}, totals, now)
		if d := got.EnergyMillijoules - want.EnergyMillijoules; d < -1 || d > 1 {
			t.Fatalf("seed %d: energy %d mJ, want %d", seed, got.EnergyMillijoules, want.EnergyMillijoules)
		}
		got.EnergyMillijoules = want.EnergyMillijoules
		if d := got.NVLinkBytes - want.NVLinkBytes; d < -1 || d > 1 {
			t.Fatalf("seed %d: NVLink %d bytes, want %d", seed, got.NVLinkBytes, want.NVLinkBytes)
		}
		got.NVLinkBytes = want.NVLinkBytes
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("seed %d: reading without the ended loads (-want +got):\n%s", seed, d)
		}
	}
}
