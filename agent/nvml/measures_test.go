package nvml_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth.dev/berth/agent/nvml"
)

// counted counts what is asked of GPUs beyond a Reading.
type counted struct {
	nvml.Library
	asked *[]string
}

type countedDevice struct {
	nvml.Device
	asked *[]string
}

func (c counted) Device(index int) (nvml.Device, error) {
	d, err := c.Library.Device(index)
	return countedDevice{d, c.asked}, err
}

func (d countedDevice) Number(n nvml.Number) (int64, error) {
	*d.asked = append(*d.asked, "number")
	return d.Device.Number(n)
}

func (d countedDevice) Field(id int, scope uint32) (int64, error) {
	if !slices.Contains([]int{nvml.FieldMemoryTemperature, nvml.FieldRecoveryAction}, id) && scope != nvml.AllLinks {
		*d.asked = append(*d.asked, "field")
	}
	return d.Device.Field(id, scope)
}

// Measures are read where they are asked for and nowhere else; a GPU that does not
// have one says so, and MIG devices have their own of what GPM gives, and their GPU's
// of the rest.
func TestMeasuresAreReadWhereTheyAreAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		d := nvml.NewDriver(counted{fake(t, `
gpus:
- {product: NVIDIA H100 80GB HBM3, count: 1, mig: [3g.40gb, 1g.10gb]}
- {product: NVIDIA H100 80GB HBM3, count: 2}
- {product: Tesla V100-SXM2-16GB, count: 1}
- {product: NVIDIA GeForce RTX 4090, count: 1}
loads:
- {gpu: 0, mig: 0, pid: 1, utilization: 0.8}
- {gpu: 1, pid: 2, utilization: 0.5, peers: 1}
thermal: [{gpu: 2}]
remap: [{gpu: 1}]`), &asked})
		s := d.Snapshot()
		time.Sleep(time.Minute)
		if plain, _, err := d.Samples(time.Now()); err != nil || len(asked) > 0 || plain[0].More != nil {
			t.Fatalf("without a measure: %v, %v is asked of the driver, More %v", err, asked, plain[0].More)
		}
		list := []nvml.Measure{
			"SMActiveRatio", "ThermalViolation", "RetiredSingleBit", "NVLinkFlitErrors", "FanPercent", "ECCSingleVolatile", nvml.LinkMeasure(3),
			"PerformanceState", "ClockReasons", "PowerInstant", "NoSuchMeasure",
		}
		time.Sleep(time.Minute)
		samples, _, err := d.Samples(time.Now(), list...)
		if err != nil || len(samples) != 7 {
			t.Fatalf("%d samples, %v", len(samples), err)
		}
		of := map[string]nvml.Sample{}
		for _, x := range samples {
			of[x.UUID] = x
		}
		value := func(uuid string, m nvml.Measure) (float64, bool) {
			x := of[uuid]
			return x.More[slices.Index(list, m)], !slices.Contains(x.Absent, string(m))
		}
		g := func(i int) string { return s.GPUs[i].UUID }
		mig := func(i int) string { return s.GPUs[0].MIG[i].UUID }
		for _, tt := range []struct {
			name, uuid string
			m          nvml.Measure
			has        bool
			least      float64
			most       float64
		}{
			{"SMs of the busy MIG device", mig(0), "SMActiveRatio", true, 0.7, 0.8},
			{"SMs of its idle sibling", mig(1), "SMActiveRatio", true, 0, 0},
			{"SMs of a GPU before Hopper", g(3), "SMActiveRatio", false, 0, 0},
			{"a minute and more of heat, in ns", g(2), "ThermalViolation", true, 110e9, 130e9},
			{"no heat", g(1), "ThermalViolation", true, 0, 0},
			{"no heat of a MIG device's GPU", mig(1), "ThermalViolation", true, 0, 0},
			{"clocks that heat lowers", g(2), "ClockReasons", true, 0x60, 0x60},
			{"pages are retired on Volta", g(3), "RetiredSingleBit", true, 0, 0},
			{"and rows replaced on Hopper", g(1), "RetiredSingleBit", false, 0, 0},
			{"nor are pages of its MIG devices", mig(0), "RetiredSingleBit", false, 0, 0},
			{"links of a GPU with NVLink", g(1), "NVLinkFlitErrors", true, 0, 0},
			{"no links of one without", g(4), "NVLinkFlitErrors", false, 0, 0},
			{"the traffic of one of 18 links, in KiB", g(1), nvml.LinkMeasure(3), true, 0.3 * 0.5 * 50e9 * 110 / 1024, 0.3 * 0.5 * 50e9 * 130 / 1024},
			{"a fan of its own", g(4), "FanPercent", true, 30, 80},
			{"no fan in a server", g(1), "FanPercent", false, 0, 0},
			{"no ECC without HBM", g(4), "ECCSingleVolatile", false, 0, 0},
			{"ECC of a MIG device's GPU", mig(0), "ECCSingleVolatile", true, 0, 0},
			{"power in W", g(1), "PowerInstant", true, 90, 700},
			{"a measure of another release", g(1), "NoSuchMeasure", false, 0, 0},
		} {
			if v, has := value(tt.uuid, tt.m); has != tt.has || v < tt.least || v > tt.most {
				t.Errorf("%s: %s = %v, given %v; want %v to %v, given %v", tt.name, tt.m, v, has, tt.least, tt.most, tt.has)
			}
		}
		asked = nil
		time.Sleep(time.Second)
		if again, _, err := d.Samples(time.Now()); err != nil || len(asked) > 0 || again[0].More != nil {
			t.Errorf("once nothing is asked for: %v, %v is asked of the driver, More %v", err, asked, again[0].More)
		}
	})
}
