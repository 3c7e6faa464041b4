package exporter_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"berth.dev/berth/agent/exporter"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/test/golden"
)

const gib = 1 << 30

func card(index int, product string, memoryBytes int64) gpu.GPU {
	i := string(rune('0' + index))
	return gpu.GPU{
		Index: index, UUID: "GPU-0000000" + i + "-0000-4000-8000-000000000000", Product: product,
		MemoryBytes: memoryBytes, BusID: "00000000:1" + i + ":00.0", Healthy: true,
	}
}

func busy(used int64) gpu.Reading {
	return gpu.Reading{
		UtilizationRatio: 0.974, MemoryUtilization: 0.5, MemoryUsedBytes: used, MemoryReservedBytes: gib / 2,
		TemperatureCelsius: 71, MemoryTempCelsius: 75, PowerWatts: 371.25, PowerLimitWatts: 400,
		SMClockMHz: 1365, MemoryClockMHz: 1215, EnergyMillijoules: 123456789012,
		TensorActiveRatio: 0.44, DRAMActiveRatio: 0.58, PCIeTxBytesPerSecond: 800e6, PCIeRxBytesPerSecond: 2.4e9,
		NVLinkBytes: 1 << 40,
	}
}

// scrape is one whole GPU with a pod, a free one, one partitioned with MIG and one shared
// by two pods.
func scrape() (exporter.Options, []exporter.Device) {
	cut := card(2, "NVIDIA A100-SXM4-40GB", 40*gib)
	cut.MIGEnabled = true
	cut.MIG = []gpu.MIGDevice{{UUID: "MIG-1", Profile: "1g.5gb", GI: 7, Slices: 1, MemoryBytes: 4864 << 20}}
	idle := gpu.Reading{
		MemoryUsedBytes: 4 << 20, MemoryReservedBytes: gib / 2, TemperatureCelsius: 31, MemoryTempCelsius: 35,
		PowerWatts: 52, PowerLimitWatts: 400, SMClockMHz: 210, MemoryClockMHz: 1215, EnergyMillijoules: 52000,
	}
	sick := busy(10 * gib)
	sick.Xid, sick.RemappedRows, sick.RowRemapFailed = 63, 1, true
	mig := busy(2 * gib)
	mig.MemoryReservedBytes = 0
	return exporter.Options{Hostname: "gpu-node-1", DriverVersion: "570.124.06"}, []exporter.Device{
		{
			GPU: card(0, "NVIDIA A100-SXM4-40GB", 40*gib), Reading: busy(31 * gib),
			Pods: []exporter.Pod{{Namespace: "gpu-training", Name: "resnet50-training-x7k2p", Container: "trainer", UID: "7b0e"}},
		},
		{GPU: card(1, "NVIDIA A100-SXM4-40GB", 40*gib), Reading: idle},
		{
			GPU: cut, MIG: &cut.MIG[0], Reading: mig,
			Pods: []exporter.Pod{{Namespace: "inference", Name: "mig-inference", Container: "inference"}},
		},
		{GPU: card(3, "Tesla T4", 15*gib), Reading: sick, Pods: []exporter.Pod{
			{Namespace: "team-a", Name: "notebook-a", Container: "notebook"},
			{Namespace: "team-b", Name: "notebook-b", Container: "notebook"},
		}},
	}
}

func write(t *testing.T, o exporter.Options, devs []exporter.Device) string {
	t.Helper()
	var b bytes.Buffer
	if err := exporter.Write(&b, o, devs); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func parse(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("Prometheus does not parse the scrape: %v", err)
	}
	return families
}

func TestWriteIsTheGoldenScrape(t *testing.T) {
	o, devs := scrape()
	got := write(t, o, devs)
	golden.File(t, "scrape.txt", got)
	if again := write(t, o, devs); again != got {
		t.Error("Write of the same devices gives other bytes")
	}
}

func TestSeries(t *testing.T) {
	o, devs := scrape()
	families := parse(t, write(t, o, devs))
	if len(families) != 25 {
		t.Errorf("Write gave %d fields, want the 25 of the default set", len(families))
	}
	for _, c := range []struct {
		name, field string
		want        []string // GPU index and pod of each series, in order
	}{
		{
			"a free GPU has no pod label and each sharer has its series", "DCGM_FI_DEV_FB_USED",
			[]string{"0 resnet50-training-x7k2p", "1 ", "2 mig-inference", "3 notebook-a", "3 notebook-b"},
		},
		{
			"a GPU cut by MIG has no GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL",
			[]string{"0 resnet50-training-x7k2p", "1 ", "3 notebook-a", "3 notebook-b"},
		},
		{
			"a MIG device has the profiling fields", "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
			[]string{"0 resnet50-training-x7k2p", "1 ", "2 mig-inference", "3 notebook-a", "3 notebook-b"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, m := range families[c.field].GetMetric() {
				l := labels(m)
				got = append(got, l["gpu"]+" "+l["pod"])
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("series of %s (-want +got):\n%s", c.field, d)
			}
		})
	}
}

func labels(m *dto.Metric) map[string]string {
	out := map[string]string{}
	for _, l := range m.GetLabel() {
		out[l.GetName()] = l.GetValue()
	}
	return out
}

func TestMemoryAddsUpToTheDevice(t *testing.T) {
	o, devs := scrape()
	families := parse(t, write(t, o, devs))
	used, free, kept := families["DCGM_FI_DEV_FB_USED"], families["DCGM_FI_DEV_FB_FREE"], families["DCGM_FI_DEV_FB_RESERVED"]
	want := []float64{40960, 40960, 4864, 15360, 15360}
	for i, w := range want {
		sum := used.Metric[i].GetGauge().GetValue() + free.Metric[i].GetGauge().GetValue() + kept.Metric[i].GetGauge().GetValue()
		if sum != w {
			t.Errorf("series %d: used + free + reserved = %v MiB, want %v", i, sum, w)
		}
	}
}

func TestOddNamesAreEscaped(t *testing.T) {
	odd := "a\\b\"c\nd"
	text := write(t, exporter.Options{Hostname: odd}, []exporter.Device{{GPU: card(0, "Tesla T4", gib)}})
	m := parse(t, text)["DCGM_FI_DEV_GPU_TEMP"].Metric[0]
	if got := labels(m)["hostname"]; got != odd {
		t.Errorf("hostname reads back as %q, want %q", got, odd)
	}
}

func TestNoDevicesIsAnEmptyScrape(t *testing.T) {
	if got := write(t, exporter.Options{}, nil); got != "" {
		t.Errorf("Write of no devices = %q, want nothing", got)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("pipe closed") }

func TestAWriteErrorNamesTheNode(t *testing.T) {
	err := exporter.Write(broken{}, exporter.Options{Hostname: "n1"}, nil)
	if err == nil || err.Error() != "write metrics of n1: pipe closed" {
		t.Errorf("Write = %v, want the node and the cause", err)
	}
}
