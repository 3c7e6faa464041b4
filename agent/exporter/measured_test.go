package exporter_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/agent/exporter"
	"berth.dev/berth/agent/fakegpu"
	"berth.dev/berth/agent/nvml"
)

// A file of fields brings series that the driver is asked for, of MIG devices their
// own where they have one; what is wrong with it is counted, and the next file takes
// its place.
func TestFieldsOfAFileAreReadFromTheDriver(t *testing.T) {
	f, err := fakegpu.Parse("f", []byte(`node: n
gpus: [{product: NVIDIA H100 80GB HBM3, count: 1, mig: [3g.40gb]}, {product: Tesla T4, count: 1}]
loads: [{gpu: 0, mig: 0, pid: 1, utilization: 0.8}]`))
	if err != nil {
		t.Fatal(err)
	}
	lib := fakegpu.New(f, fakegpu.Options{})
	d := nvml.NewDriver(lib)
	t.Cleanup(func() { _ = d.Close(); _ = lib.Close() })
	s := d.Snapshot()
	var asked []nvml.Measure
	now := time.Now()
	c := exporter.NewCollector(exporter.Sources{
		Snapshot: func() nvml.Snapshot { return s },
		Ask:      func(list []nvml.Measure) { asked = list },
		Samples: func(context.Context) ([]nvml.Sample, error) {
			now = now.Add(time.Minute)
			list, _, err := d.Samples(now, asked...)
			return list, err
		},
	}, exporter.CollectorOptions{Options: exporter.Options{Hostname: "n", Divide: true}, MinAge: time.Nanosecond})
	scrape := func() string {
		t.Helper()
		text, err := c.Scrape(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		parse(t, string(text))
		return string(text)
	}
	if text := scrape(); strings.Contains(text, "SM_ACTIVE") || strings.Contains(text, "left_out") || len(asked) > 0 {
		t.Errorf("by default %v is asked for, in\n%s", asked, text)
	}
	c.SetFields(exporter.ParseFields("f.csv", []byte(`DCGM_FI_PROF_SM_ACTIVE, gauge, SMs.
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL, counter, ECC.
DCGM_FI_DEV_SERIAL, label, Serial.
DCGM_FI_DEV_NO_SUCH, gauge, x
DCGM_FI_DEV_NO_SUCH_EITHER, gauge, x
`)))
	families := parse(t, scrape())
	mig, n := sum(families, "DCGM_FI_PROF_SM_ACTIVE", map[string]string{"GPU_I_PROFILE": "3g.40gb"})
	if n != 1 || mig < 0.7 || mig > 0.8 || len(families["DCGM_FI_PROF_SM_ACTIVE"].GetMetric()) != 1 {
		t.Errorf("SM_ACTIVE of the MIG device is %v in %d series: %v", mig, n, families["DCGM_FI_PROF_SM_ACTIVE"])
	}
	if _, n := sum(families, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", nil); n != 1 {
		t.Errorf("ECC has %d series, want the one of the H100: a T4 of GDDR has none in this fake", n)
	}
	for reason, want := range map[string]float64{"unknown": 2, "dcgm": 1} {
		if got, n := sum(families, "berth_metrics_file_lines_left_out", map[string]string{"reason": reason}); got != want || n != 1 {
			t.Errorf("lines left out for %s: %v in %d series, want %v", reason, got, n, want)
		}
	}
	c.SetFields(exporter.Fields{}, nil)
	if text := scrape(); strings.Contains(text, "SM_ACTIVE") || strings.Contains(text, "left_out") || len(asked) > 0 {
		t.Errorf("by default again %v is asked for, in\n%s", asked, text)
	}
}
