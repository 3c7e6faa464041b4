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
		name string
		args []string
		set  map[string]string // in place of env's
		want exported
		err  string
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
		{name: "nothing that is no truth", set: map[string]string{"KUBERNETES_VIRTUAL_GPUS": "some"}, err: "KUBERNETES_VIRTUAL_GPUS: "},
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
			if tt.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.err) {
					t.Errorf("options: %v, want %s...", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, exportedOf(o)); d != "" {
				t.Errorf("options (-want +got):\n%s", d)
			}
		})
	}
}
