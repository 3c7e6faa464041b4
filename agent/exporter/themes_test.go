package exporter_test

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"berth.dev/berth/agent/exporter"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/core/sharing"
)

// podsOf lists "namespace/pod value" of the series of a field that have a pod.
func podsOf(families map[string]*dto.MetricFamily, field string) []string {
	out := []string{}
	for _, m := range families[field].GetMetric() {
		if l := labels(m); l["pod"] != "" {
			out = append(out, fmt.Sprintf("%s/%s %v", l["namespace"], l["pod"], value(m)))
		}
	}
	return out
}

// The steps of NVIDIA/dcgm-exporter#151, #201, #222, #307, #144 and #127: GPUs are
// shared by time-slicing, NVIDIA's plugin serves them as nvidia.com/gpu.shared, and
// several pods are on one GPU. The metrics named no pod, or the last one only.
func TestEverySharerOfATimeSlicedGPUHasItsSeries(t *testing.T) {
	r := newRig(t, 1)
	names := []string{"extractor-2v922", "extractor-ffs8r", "extractor-vkkcb"}
	r.sources.Holders = nil // another plugin serves
	r.sources.Kubelet = func(context.Context, nvml.Snapshot) ([]exporter.Holder, error) {
		var out []exporter.Holder
		for i, pod := range names {
			d := sharing.Device{ID: sharing.ShareID(r.uuid(0), i), UUID: r.uuid(0)}
			out = append(out, exporter.Holder{Namespace: "default", Pod: pod, Container: "extractor", Devices: []sharing.Device{d}})
		}
		return out, nil
	}
	r.sources.PodUIDs = func() func(string, string) string { return func(_, name string) string { return uid(name) } }
	r.samples[0].Reading = busy(7 * gib)
	r.runs(t, 100, uid(names[0]), r.uuid(0), 4*gib)
	r.runs(t, 101, uid(names[2]), r.uuid(0), 1*gib)
	r.runs(t, 102, uid(names[2]), r.uuid(0), 1*gib)
	families := parse(t, r.scrape(t))

	for field, want := range map[string][]string{
		// 97 % are the work of two; the third runs nothing. 1 GiB of 7 is nobody's.
		"DCGM_FI_DEV_GPU_UTIL":          {"default/extractor-2v922 48", "default/extractor-ffs8r 0", "default/extractor-vkkcb 49"},
		"DCGM_FI_PROF_GR_ENGINE_ACTIVE": {"default/extractor-2v922 0.487", "default/extractor-ffs8r 0", "default/extractor-vkkcb 0.487"},
		"DCGM_FI_DEV_FB_USED":           {"default/extractor-2v922 4096", "default/extractor-ffs8r 0", "default/extractor-vkkcb 2048"},
		"berth_gpu_holder_info":         {"default/extractor-2v922 1", "default/extractor-ffs8r 1", "default/extractor-vkkcb 1"},
		// NVIDIA/dcgm-exporter#582: all pods showed the power of the whole GPU.
		"DCGM_FI_DEV_POWER_USAGE": {},
	} {
		if d := cmp.Diff(want, podsOf(families, field)); d != "" {
			t.Errorf("%s by pod (-want +got):\n%s", field, d)
		}
	}
	alone := newRig(t, 1)
	alone.samples[0].Reading = busy(7 * gib)
	whole := parse(t, alone.scrape(t))
	for _, field := range new(exporter.Fields).Names() {
		got, _ := sum(families, field, nil)
		want, _ := sum(whole, field, nil)
		if got < want-1e-6 || got > want+1e-6 {
			t.Errorf("sum(%s) = %v over the sharers, %v of the GPU alone", field, got, want)
		}
	}

	r.options.Divide = false
	families = parse(t, r.scrape(t))
	want := []string{"default/extractor-2v922 371.25", "default/extractor-ffs8r 371.25", "default/extractor-vkkcb 371.25"}
	if d := cmp.Diff(want, podsOf(families, "DCGM_FI_DEV_POWER_USAGE")); d != "" {
		t.Errorf("as dcgm-exporter with KUBERNETES_VIRTUAL_GPUS, power by pod (-want +got):\n%s", d)
	}
}

func TestProcessesThatCannotBeSeenAreGuessedAsLittleAsCanBe(t *testing.T) {
	r := newRig(t, 1)
	r.holds("a", r.uuid(0), 0, 500)
	r.holds("b", r.uuid(0), 1, 500)
	r.runs(t, 100, "", r.uuid(0), gib) // no hostPID
	families := parse(t, r.scrape(t))
	if got := podsOf(families, "DCGM_FI_DEV_FB_USED"); len(got) > 0 {
		t.Errorf("memory is told of pods whose processes nobody knows: %v", got)
	}
	if d := cmp.Diff([]string{"team-a/a 48", "team-a/b 49"}, podsOf(families, "DCGM_FI_DEV_GPU_UTIL")); d != "" {
		t.Errorf("utilization by share (-want +got):\n%s", d)
	}
}

// The steps of NVIDIA/dcgm-exporter#105, #430, #397 and #22, and
// NVIDIA/gpu-operator#535: MIG is on, pods hold MIG devices, and no metric shows
// what they do.
func TestMIGDevicesShowWhatTheyDo(t *testing.T) {
	r := newRig(t, 2, 0)
	g := r.snapshot.GPUs[0]
	for i, m := range g.MIG {
		r.holds(fmt.Sprintf("pod-%d", i), m.UUID, -1, 142)
	}
	families := parse(t, r.scrape(t))
	with := func(gi int) map[string]string {
		return map[string]string{"UUID": g.UUID, "GPU_I_ID": fmt.Sprint(gi), "GPU_I_PROFILE": "1g.10gb"}
	}
	for i, m := range g.MIG {
		for field, want := range map[string]float64{
			"DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.974, "DCGM_FI_PROF_DRAM_ACTIVE": 0.58, "DCGM_FI_DEV_FB_USED": float64(i) * 1024,
		} {
			labels := with(m.GI)
			labels["pod"] = fmt.Sprintf("pod-%d", i)
			if got, n := sum(families, field, labels); n != 1 || got != want {
				t.Errorf("%s%v = %v in %d series, want %v", field, labels, got, n, want)
			}
		}
	}
	for field, want := range map[string]int{
		"DCGM_FI_DEV_GPU_UTIL":          1, // of the other GPU: the driver gives none with MIG on
		"DCGM_FI_PROF_GR_ENGINE_ACTIVE": 8,
		"DCGM_FI_DEV_POWER_USAGE":       2, // of a board, not of each of its parts
	} {
		if _, n := sum(families, field, nil); n != want {
			t.Errorf("%s has %d series, want %d", field, n, want)
		}
	}
	r.options.Divide = false
	if _, n := sum(parse(t, r.scrape(t)), "DCGM_FI_DEV_POWER_USAGE", map[string]string{"UUID": g.UUID}); n != 7 {
		t.Errorf("as dcgm-exporter, power has %d series of the GPU that is cut, want 7", n)
	}
}

// scraped is what Prometheus makes of a series' labels and those of its target.
// Source: its documentation of honor_labels.
func scraped(series, target map[string]string, honor bool) map[string]string {
	out := maps.Clone(series)
	for k, v := range target {
		if had, ok := series[k]; ok {
			if honor {
				continue
			}
			out["exported_"+k] = had
		}
		out[k] = v
	}
	maps.DeleteFunc(out, func(_, v string) bool { return v == "" })
	return out
}

// The steps of NVIDIA/dcgm-exporter#188 and #340: a dashboard asks for the pod of a
// series and gets the exporter's, that of the GPU's holder is in exported_pod or
// nowhere.
func TestPodLabelsOutliveAScrape(t *testing.T) {
	r := newRig(t, 2)
	r.holds("training", r.uuid(0), -1, 1000)
	target := map[string]string{"namespace": "berth-system", "pod": "berth-agent-7x2lm", "container": "agent", "instance": "10.0.0.7:9400"}
	pods := func(honor bool, label string) []string {
		out := []string{}
		for _, m := range parse(t, r.scrape(t))["DCGM_FI_DEV_GPU_TEMP"].GetMetric() {
			out = append(out, scraped(labels(m), target, honor)[label])
		}
		return out
	}
	if d := cmp.Diff([]string{"training", ""}, pods(true, "pod")); d != "" {
		t.Errorf("pod with honorLabels: true (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"training", ""}, pods(false, "exported_pod")); d != "" {
		t.Errorf("exported_pod with honorLabels: false (-want +got):\n%s", d)
	}
	r.options.OldLabels = true
	if d := cmp.Diff([]string{"training", ""}, pods(false, "pod_name")); d != "" {
		t.Errorf("pod_name with the old labels (-want +got):\n%s", d)
	}
}

// NVIDIA/dcgm-exporter#490, #342 and #572: there was no node in the labels, or that
// of the exporter's pod, or localhost. #718, #655 and #709: the label's name
// changed, and dashboards found nothing.
func TestTheHostnameIsTheNodesByTheNameThatIsWanted(t *testing.T) {
	r := newRig(t, 2, 1)
	for _, want := range []string{"hostname", "Hostname"} {
		r.options.HostnameLabel = want
		for name, f := range parse(t, r.scrape(t)) {
			for _, m := range f.GetMetric() {
				if l := labels(m); l["gpu"] != "" && l[want] != "gpu-node-1" {
					t.Errorf("%s has no label %s of the node: %v", name, want, l)
				}
			}
		}
	}
	if text := r.scrape(t); strings.Contains(text, `,hostname="`) {
		t.Error("both names are written")
	}
}

// The steps of NVIDIA/dcgm-exporter#702, #536, #292, #609 and
// NVIDIA/gpu-operator#340: a node whose pods come and go is scraped for days, and the
// exporter grows to its limit of 512 MiB and is ended. On a real node agent and child
// have at most 40 MB of their own, which test/node holds them to; what is resident of
// both is in docs/benchmarks.md.
func TestScrapesLeaveNothingBehind(t *testing.T) {
	r := newRig(t, 8, 0, 1, 2, 3, 4, 5, 6, 7)
	round := 0
	r.sources.Holders = func() []exporter.Holder {
		var out []exporter.Holder
		for _, g := range r.snapshot.GPUs {
			for _, m := range g.MIG {
				name := fmt.Sprintf("job-%d-%s", round, m.UUID)
				out = append(out, exporter.Holder{
					PodUID: uid(name), Namespace: "team", Pod: name, Container: "main", Devices: []sharing.Device{{ID: m.UUID, UUID: m.UUID, MilliGPU: 142}},
				})
			}
		}
		return out
	}
	c := exporter.NewCollector(r.sources, r.options)
	heap := func() uint64 {
		for range 50 { // 56 pods that were never seen before, each time
			round++
			c.Xids.Note(r.uuid(0), 31, time.Unix(int64(round), 0))
			if _, err := c.Scrape(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	heap()
	before := heap()
	for range 5 {
		heap()
	}
	if after := heap(); after > before+1<<20 {
		t.Errorf("after 300 more scrapes with 16,800 more pods %d bytes are in use, %d before", after, before)
	}
}
