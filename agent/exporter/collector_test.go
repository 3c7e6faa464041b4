package exporter_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"berth.dev/berth/agent/exporter"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/test/golden"
)

// full is a node of eight: 0 held whole, 1 free, 2 shared by time-slicing, 3 and 4
// cut, 5 held by a pod that the kubelet alone knows, 6 sick, 7 lost.
func full(tb testing.TB) (*rig, *exporter.Collector) {
	r := newRig(tb, 8, 3, 4)
	r.holds("training", r.uuid(0), -1, 1000)
	r.holds("notebook-a", r.uuid(2), 0, 250)
	r.holds("notebook-b", r.uuid(2), 1, 250)
	r.runs(tb, 100, uid("notebook-a"), r.uuid(2), 2*gib)
	mig := r.snapshot.GPUs[3].MIG
	r.holds("inference", mig[0].UUID, -1, 142)
	r.sources.Kubelet = func(context.Context, nvml.Snapshot) ([]exporter.Holder, error) {
		return []exporter.Holder{{Namespace: "kube-system", Pod: "dcgm-test", Container: "test", Devices: []sharing.Device{{ID: r.uuid(5), UUID: r.uuid(5)}}}}, nil
	}
	at := slices.IndexFunc(r.samples, func(s nvml.Sample) bool { return s.UUID == r.uuid(6) })
	r.samples[at].Reading.Xid = 48
	r.samples = r.samples[:len(r.samples)-1] // of GPU 7
	r.snapshot.GPUs[7].Lost, r.snapshot.GPUs[7].Healthy = true, false
	r.sources.Healthy = func(uuid string) bool { return uuid != r.uuid(6) && uuid != r.uuid(7) }
	c := exporter.NewCollector(r.sources, r.options)
	now := time.Now()
	for range 3 {
		c.Xids.Note(r.uuid(6), 48, now)
	}
	c.Xids.Note(r.uuid(0), 13, now.Add(-time.Hour))
	return r, c
}

func TestAScrapeOfANodeIsTheGoldenOne(t *testing.T) {
	_, c := full(t)
	text, err := c.Scrape(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, "node.txt", string(text))
	again, _ := c.Scrape(t.Context())
	if string(again) != string(text) {
		t.Error("a second scrape of the same node gives other bytes")
	}
	families := parse(t, string(text))
	for _, name := range new(exporter.Fields).Names() {
		if families[name] == nil {
			t.Errorf("the scrape lacks %s", name)
		}
	}
}

// The names and types of dcgm-exporter are a protocol; what promlint has against
// them stays.
func TestAScrapeIsCleanForPromlint(t *testing.T) {
	_, c := full(t)
	text, _ := c.Scrape(t.Context())
	problems, err := promlint.New(strings.NewReader(string(text))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "DCGM_") && slices.Contains([]string{
			`counter metrics should have "_total" suffix`,
			`label names should be written in 'snake_case' not 'camelCase'`,
			`metric name should not include type 'counter'`,
		}, p.Text) {
			continue
		}
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestAbsentReadingsHaveNoSeries(t *testing.T) {
	r := newRig(t, 2)
	r.samples[0].Absent = []string{"DRAMActiveRatio", "MemoryTempCelsius", "PCIeRxBytesPerSecond", "PCIeTxBytesPerSecond", "TensorActiveRatio"}
	families := parse(t, r.scrape(t))
	for field, want := range map[string]int{
		"DCGM_FI_DEV_MEMORY_TEMP": 1, "DCGM_FI_PROF_DRAM_ACTIVE": 1, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 1,
		"DCGM_FI_PROF_GR_ENGINE_ACTIVE": 1, // without GPM it would be GPU_UTIL again
		"DCGM_FI_DEV_GPU_UTIL":          2, "DCGM_FI_DEV_GPU_TEMP": 2,
	} {
		if _, n := sum(families, field, nil); n != want {
			t.Errorf("%s has %d series, want %d", field, n, want)
		}
	}
}

func TestADriverThatDoesNotAnswer(t *testing.T) {
	r := newRig(t, 2)
	r.sources.Samples = func(context.Context) ([]nvml.Sample, error) { return nil, errors.New("the child process has ended") }
	families := parse(t, r.scrape(t))
	if up, _ := sum(families, "berth_nvml_up", nil); up != 0 || families["DCGM_FI_DEV_GPU_TEMP"] != nil {
		t.Errorf("berth_nvml_up = %v, with readings: %v", up, families["DCGM_FI_DEV_GPU_TEMP"] != nil)
	}
	if _, n := sum(families, "berth_gpu_healthy", nil); n != 2 {
		t.Errorf("berth_gpu_healthy has %d series, want 2", n)
	}
	r.snapshot = nvml.Snapshot{Failed: "NVML library not found; install the driver"}
	_, err := exporter.NewCollector(r.sources, r.options).Scrape(t.Context())
	if err == nil || err.Error() != "read the GPUs: NVML library not found; install the driver" {
		t.Errorf("Scrape without any GPU = %v", err)
	}
}

func TestXidsAreCounted(t *testing.T) {
	_, c := full(t)
	text, _ := c.Scrape(t.Context())
	families := parse(t, string(text))
	for _, x := range []struct {
		field, xid string
		want       float64
	}{
		{"berth_gpu_xid_errors_total", "48", 3},
		{"berth_gpu_xid_errors_total", "13", 1},
		{"DCGM_EXP_XID_ERRORS_COUNT", "48", 3},
		{"DCGM_EXP_XID_ERRORS_COUNT", "13", 0},
	} {
		with := map[string]string{"xid": x.xid}
		if x.field == "DCGM_EXP_XID_ERRORS_COUNT" {
			with["window_size_in_ms"] = "300000"
		}
		if got, n := sum(families, x.field, with); got != x.want || n != 1 {
			t.Errorf("%s of Xid %s = %v in %d series, want %v in one", x.field, x.xid, got, n, x.want)
		}
	}
}

func TestHeldIsInGPUs(t *testing.T) {
	_, c := full(t)
	text, _ := c.Scrape(t.Context())
	families := parse(t, string(text))
	// 1 whole, 2 x 250, one of seven slices, and one whole of the kubelet's.
	if got, _ := sum(families, "berth_gpu_held", nil); got < 2.6419 || got > 2.6421 {
		t.Errorf("sum(berth_gpu_held) = %v, want 2.642", got)
	}
	if _, n := sum(families, "berth_gpu_holder_info", map[string]string{"committed": "true"}); n != 4 {
		t.Errorf("%d holders by commitment, want 4", n)
	}
}

// BenchmarkScrape is a scrape of 8 GPUs that are partitioned into 56 MIG devices, each
// held, and of 8 whole ones, shared by four.
func BenchmarkScrape(b *testing.B) {
	cut := newRig(b, 8, 0, 1, 2, 3, 4, 5, 6, 7)
	for i, g := range cut.snapshot.GPUs {
		for j, m := range g.MIG {
			cut.holds("pod-"+string(rune('a'+i))+string(rune('a'+j)), m.UUID, -1, 142)
		}
	}
	shared := newRig(b, 8)
	pid := 100
	for i, g := range shared.snapshot.GPUs {
		for j := range 4 {
			pod := "pod-" + string(rune('a'+i)) + string(rune('a'+j))
			shared.holds(pod, g.UUID, j, 250)
			shared.runs(b, pid, uid(pod), g.UUID, gib)
			pid++
		}
	}
	for _, c := range []struct {
		name string
		rig  *rig
		all  bool
	}{{"8 GPUs with 56 MIG devices", cut, false}, {"8 GPUs with 56 MIG devices as dcgm-exporter", cut, true}, {"8 GPUs with 32 processes", shared, false}} {
		b.Run(c.name, func(b *testing.B) {
			o := c.rig.options
			o.Divide = !c.all
			collector := exporter.NewCollector(c.rig.sources, o)
			b.ReportAllocs()
			for b.Loop() {
				text, err := collector.Scrape(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(text)), "text-bytes")
			}
		})
	}
}

// The agent's DaemonSet runs on every node: one without a GPU is no target that is
// down, and no driver that does not answer.
func TestANodeWithoutGPUsIsScraped(t *testing.T) {
	r := newRig(t, 0)
	r.snapshot = nvml.Snapshot{Failed: "NVML library not found"}
	r.sources.Samples = func(context.Context) ([]nvml.Sample, error) { return nil, errors.New("NVML library not found") }
	bare := true
	r.sources.Bare = func() bool { return bare }
	text := r.scrape(t)
	if strings.Contains(text, "DCGM_") || strings.Contains(text, "berth_nvml_up") || !strings.Contains(text, "berth_nvml_restarts_total 1\n") {
		t.Errorf("a node without GPUs has\n%s", text)
	}
	bare = false
	if _, err := exporter.NewCollector(r.sources, r.options).Scrape(t.Context()); err == nil || !strings.Contains(err.Error(), "NVML library not found") {
		t.Errorf("where there are GPUs a driver that was never read gives %v", err)
	}
}

// dcgm-exporter's old namespace changes the names of four labels.
func TestOldLabelsAreThoseOfTheOldNamespace(t *testing.T) {
	r := newRig(t, 2, 1)
	r.holds("training", r.uuid(0), -1, 1000)
	r.options.OldLabels = true
	text := r.scrape(t)
	for _, name := range []string{`uuid="`, `pod_name="training"`, `pod_namespace="`, `container_name="`} {
		if !strings.Contains(text, name) {
			t.Errorf("no series has %s", name)
		}
	}
	for _, name := range []string{"UUID", "pod", "namespace", "container"} {
		if strings.Contains(text, ","+name+`="`) || strings.Contains(text, "{"+name+`="`) {
			t.Errorf("series have the label %s as well", name)
		}
	}
}
