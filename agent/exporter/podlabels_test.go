package exporter_test

import (
	"regexp"
	"strings"
	"testing"

	"berth.dev/berth/agent/exporter"
)

// The labels of pods are on the series of what they hold, under names that Prometheus
// takes, and no label is there twice, whatever pods call theirs.
func TestLabelsOfPodsAreOnTheirSeries(t *testing.T) {
	r := newRig(t, 2)
	r.holds("train", r.uuid(0), -1, 1000)
	r.sources.PodLabels = func() func(string) map[string]string {
		return func(podUID string) map[string]string {
			if podUID != uid("train") {
				return nil
			}
			return map[string]string{
				"app.kubernetes.io/name": `a"b`, "team": "vision", "pod": "forged", "gpu": "9", "UUID": "x", "app-kubernetes.io/name": "first", "1st": "x", "__name__": "x",
			}
		}
	}
	if text := r.scrape(t); strings.Contains(text, "vision") {
		t.Error("labels of pods are there without being asked for")
	}
	r.options.PodLabels = exporter.PodLabels{On: true}
	text := r.scrape(t)
	families := parse(t, text)
	for _, m := range families["DCGM_FI_DEV_GPU_TEMP"].GetMetric() {
		have := labels(m)
		seen := map[string]bool{}
		for _, l := range m.GetLabel() {
			if seen[l.GetName()] {
				t.Errorf("%s is there twice: %v", l.GetName(), m.GetLabel())
			}
			seen[l.GetName()] = true
		}
		want := map[string]string{"app_kubernetes_io_name": "first", "team": "vision", "_1st": "x", "pod": "train", "gpu": "0"}
		if have["gpu"] != "0" {
			want = map[string]string{"app_kubernetes_io_name": "", "team": "", "pod": "", "gpu": "1"}
		}
		for name, value := range want {
			if have[name] != value {
				t.Errorf("GPU %s: %s is %q, want %q", have["gpu"], name, have[name], value)
			}
		}
	}
	if strings.Contains(text, "__name__") || strings.Contains(text, `committed="true",team`) {
		t.Errorf("a reserved label, or one on Berth's own series, in\n%s", text)
	}
	r.options.PodLabels.Allowed = []*regexp.Regexp{regexp.MustCompile("^app")}
	if text := r.scrape(t); strings.Contains(text, "vision") || !strings.Contains(text, `app_kubernetes_io_name="first"`) {
		t.Errorf("with patterns of keys, in\n%s", text)
	}
}
