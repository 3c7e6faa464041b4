package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/agent"
)

// exported is what of the options concerns the exporter.
type exported struct {
	Listen, MetricsFile  string
	OldLabels, Duplicate bool
	Resources            []string
}

func exportedOf(o agent.Options) exported {
	return exported{o.Listen, o.MetricsFile, o.OldLabels, o.Duplicate, o.Resources}
}

func TestTheEnvironmentOfDCGMExporterIsRead(t *testing.T) {
	self, err := os.Executable() // any program
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"NODE_NAME": "n", "DCGM_EXPORTER_LISTEN": ":9500", "DCGM_EXPORTER_COLLECTORS": "/etc/metrics.csv", "DCGM_EXPORTER_USE_OLD_NAMESPACE": "true",
		"KUBERNETES_VIRTUAL_GPUS": "1", "NVIDIA_RESOURCE_NAMES": "example.com/a100,example.com/a10",
	}
	for _, tt := range []struct {
		name    string
		args    []string
		set     map[string]string // in place of env's
		want    exported
		warning string // how it begins; "" is none
	}{
		{name: "all of it", want: exported{":9500", "/etc/metrics.csv", true, true, []string{"example.com/a100", "example.com/a10"}}},
		{
			name: "under the flags", want: exported{":9400", "mine.csv", false, false, []string{"example.com/b"}},
			args: []string{"--listen=:9400", "--metrics-file=mine.csv", "--old-labels=false", "--duplicate-shared=false", "--resource-names=example.com/b"},
		},
		{
			name: "not what is empty", want: exported{Listen: ":9400"},
			set: map[string]string{"DCGM_EXPORTER_LISTEN": "", "DCGM_EXPORTER_COLLECTORS": "", "DCGM_EXPORTER_USE_OLD_NAMESPACE": "", "KUBERNETES_VIRTUAL_GPUS": "", "NVIDIA_RESOURCE_NAMES": ""},
		},
		{
			name: "not what cannot be read, which is told and costs nothing else", set: map[string]string{"KUBERNETES_VIRTUAL_GPUS": "some"}, warning: "KUBERNETES_VIRTUAL_GPUS is left out: ",
			want: exported{":9500", "/etc/metrics.csv", true, false, []string{"example.com/a100", "example.com/a10"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFlags()
			if err := f.set.Parse(append([]string{"--nvml-program", self}, tt.args...)); err != nil {
				t.Fatal(err)
			}
			o, err := f.options(func(name string) string {
				if v, ok := tt.set[name]; ok {
					return v
				}
				return env[name]
			})
			if err != nil {
				t.Fatal(err)
			}
			if w := strings.Join(o.MetricsWarnings, "\n"); !strings.HasPrefix(w, tt.warning) || (w == "") != (tt.warning == "") {
				t.Errorf("warnings %q, want %s...", w, tt.warning)
			}
			if d := cmp.Diff(tt.want, exportedOf(o)); d != "" {
				t.Errorf("options (-want +got):\n%s", d)
			}
		})
	}
}

func TestWhichLabelsOfPodsAreShown(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const on, allowed = "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS", "DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX"
	for _, tt := range []struct {
		name     string
		args     []string
		env      map[string]string
		on       bool
		patterns int
		warned   bool
		err      string // how it begins
	}{
		{name: "none by default"},
		{name: "all", env: map[string]string{on: "true"}, on: true},
		{name: "those that match", env: map[string]string{on: "true", allowed: "^app,^team$"}, on: true, patterns: 2},
		{name: "none where a pattern cannot be read", env: map[string]string{on: "true", allowed: "^app,("}, warned: true},
		{name: "by flags", args: []string{"--pod-labels", "--pod-label-allowlist-regex=^app"}, env: map[string]string{allowed: "("}, on: true, patterns: 1},
		{name: "a flag that cannot be read", args: []string{"--pod-label-allowlist-regex=("}, err: `--pod-label-allowlist-regex "(": `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFlags()
			if err := f.set.Parse(append([]string{"--nvml-program", self}, tt.args...)); err != nil {
				t.Fatal(err)
			}
			o, err := f.options(func(name string) string { return tt.env[name] })
			if err != nil || tt.err != "" {
				if err == nil || tt.err == "" || !strings.HasPrefix(err.Error(), tt.err) {
					t.Errorf("options: %v, want %q...", err, tt.err)
				}
				return
			}
			if o.PodLabels.On != tt.on || len(o.PodLabels.Allowed) != tt.patterns || (len(o.MetricsWarnings) > 0) != tt.warned {
				t.Errorf("options: %+v, warnings %q", o.PodLabels, o.MetricsWarnings)
			}
		})
	}
}
