package settings_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/agent/settings"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/health"
)

const (
	whole  = "version: v1\n"
	shared = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
	mixed  = "version: v1\nflags: {migStrategy: mixed}\n"
)

// folder makes a folder as the kubelet mounts a ConfigMap: files are links by
// way of ..data, which update turns.
type folder struct {
	t    *testing.T
	path string
	n    int
}

func newFolder(t *testing.T, of map[string]string) *folder {
	f := &folder{t: t, path: t.TempDir()}
	f.update(of)
	return f
}

func (f *folder) update(of map[string]string) {
	f.t.Helper()
	f.n++
	version := "..v" + string(rune('a'+f.n))
	f.do(os.Mkdir(filepath.Join(f.path, version), 0o755))
	for name, text := range of {
		f.do(os.WriteFile(filepath.Join(f.path, version, name), []byte(text), 0o600))
	}
	f.do(os.Symlink(version, filepath.Join(f.path, "..tmp")))
	f.do(os.Rename(filepath.Join(f.path, "..tmp"), filepath.Join(f.path, "..data")))
	old, err := os.ReadDir(f.path)
	f.do(err)
	for _, e := range old {
		if _, stays := of[e.Name()]; !stays && !strings.HasPrefix(e.Name(), "..") {
			f.do(os.Remove(filepath.Join(f.path, e.Name())))
		}
	}
	for name := range of {
		link := filepath.Join(f.path, name)
		if _, err := os.Lstat(link); err != nil {
			f.do(os.Symlink(filepath.Join("..data", name), link))
		}
	}
}

func (f *folder) do(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func TestNewPutsFlagsOverTheEnvironment(t *testing.T) {
	env := map[string]string{
		"CONFIG_FILE": "/config/config.yaml", "MIG_STRATEGY": "single", "DEVICE_LIST_STRATEGY": "envvar,cdi-cri",
		"PASS_DEVICE_SPECS": "TRUE", "MPS_ROOT": "", "DP_DISABLE_HEALTHCHECKS": "79, 13", "DP_ENABLE_HEALTHCHECKS": "all",
		"NVIDIA_CTK_PATH": "/old", "NVIDIA_CDI_HOOK_PATH": "/new", "IMEX_CHANNEL_IDS": "0", "GFD_SLEEP_INTERVAL": "infinite",
	}
	flags := map[string]string{"mig-strategy": "mixed", "config-file": "/mine", "gds-enabled": "true", "fail-on-init-error": "false"}
	o, err := settings.New(flags, func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	if o.File != "/mine" || o.Dir != "" {
		t.Errorf("File = %q, Dir = %q", o.File, o.Dir)
	}
	o.File = ""
	got := settings.Read(o, "")
	want := config.DefaultSettings()
	want.MIGStrategy = gpu.MIGMixed
	want.FailOnInitError, want.GDS = false, true
	want.Plugin.DeviceListStrategy = []string{"envvar", "cdi-cri"}
	want.Plugin.PassDeviceSpecs = true
	want.Plugin.CTKPath = "/new"
	want.Health = config.Health{Disable: health.Codes{Some: []int{13, 79}}, Enable: health.Codes{All: true}}
	want.IMEX.ChannelIDs = []int{0}
	want.GFD.SleepInterval = 0
	if diff := cmp.Diff(want, got.Settings); diff != "" || got.Err != nil {
		t.Errorf("Read: %v (-want +got):\n%s", got.Err, diff)
	}
}

func TestReadPutsTheEnvironmentOverTheFile(t *testing.T) {
	f := newFolder(t, map[string]string{"a": "flags: {migStrategy: single, mofedEnabled: true}"})
	o := settings.Options{Dir: f.path, Over: []config.Value{{Flag: "mig-strategy", Text: "mixed", From: "MIG_STRATEGY"}}}
	c := settings.Read(o, "a")
	if c.Err != nil || c.MIGStrategy != gpu.MIGMixed || !c.MOFED || c.Source != filepath.Join(f.path, "a") {
		t.Errorf("Read = %+v", c)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		flags map[string]string
		want  string
	}{
		"a flag with a slip":   {map[string]string{"mig-stratgy": "x"}, "no such flag: --mig-stratgy; did you mean --mig-strategy?"},
		"a flag like no other": {map[string]string{"zzzzzzzzzz": "x"}, "no such flag: --zzzzzzzzzz"},
		"an unknown fallback":  {map[string]string{"fallback-strategies": "named,first"}, `fallback-strategies: invalid strategy: "first"; use named, single or empty`},
	} {
		if _, err := settings.New(tt.flags, func(string) string { return "" }); err == nil || err.Error() != tt.want {
			t.Errorf("%s: New: %v\nwant %s", name, err, tt.want)
		}
	}
}

func TestReadPicksAFile(t *testing.T) {
	several := map[string]string{"a": whole, "b": shared}
	tests := []struct {
		name      string
		files     map[string]string
		label     string
		byDefault string
		fallbacks []string
		want      string // file, or words of the error
	}{
		{name: "the one that the label names", files: several, label: "b", byDefault: "a", want: "b"},
		{name: "the default where there is no label", files: several, byDefault: "a", want: "a"},
		{name: "default by its name", files: map[string]string{"a": whole, "default": shared}, fallbacks: []string{"named"}, want: "default"},
		{name: "the only one", files: map[string]string{"a": whole}, fallbacks: []string{"named", "single"}, want: "a"},
		{name: "none, where empty is allowed", files: several, fallbacks: []string{"named", "single", "empty"}, want: "flags and environment"},
		{name: "none, where there is no ConfigMap", fallbacks: []string{"named", "single"}, want: "flags and environment"},
		{
			name: "not one that is missing where there is no ConfigMap", label: "b", fallbacks: []string{"named", "single"},
			want: "specified config b does not exist in DIR, which has no files; label the node nvidia.com/device-plugin.config with an existing name, or add the file",
		},
		{
			name: "not one of several", files: several, fallbacks: []string{"named", "single"},
			want: "no config was set, no default was provided, and all fallbacks failed; DIR, which has a, b; label the node nvidia.com/device-plugin.config with one of them, or set default-config",
		},
		{
			name: "not one that is missing", files: several, label: "c", byDefault: "a",
			want: "specified config c does not exist in DIR, which has a, b; label the node nvidia.com/device-plugin.config with an existing name, or add the file",
		},
		{
			name: "not what the kubelet keeps there", files: several, label: "..data",
			want: "specified config ..data does not exist in DIR, which has a, b; label the node nvidia.com/device-plugin.config with an existing name, or add the file",
		},
		{
			name: "not a default that is missing", files: nil, byDefault: "a",
			want: "specified config a does not exist in DIR, which has no files; change default-config, or add the file",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFolder(t, tt.files)
			c := settings.Read(settings.Options{Dir: f.path, Default: tt.byDefault, Fallbacks: tt.fallbacks}, tt.label)
			got := strings.TrimPrefix(c.Source, f.path+"/")
			if c.Err != nil {
				got = strings.ReplaceAll(c.Err.Error(), f.path, "DIR")
			}
			if got != tt.want || c.InForce != (c.Err == nil) {
				t.Errorf("Read: %s\nwant  %s", got, tt.want)
			}
		})
	}
}

func TestReadNamesWhatIsWrong(t *testing.T) {
	f := newFolder(t, map[string]string{"a": "version: v1\nflags:\n  migStratgy: mixed\n", "b": whole})
	over := func(flag, text, from string) []config.Value {
		return []config.Value{{Flag: flag, Text: text, From: from}}
	}
	for name, tt := range map[string]struct {
		label string
		over  []config.Value
		want  string
	}{
		"in a file: its line and field":    {"a", nil, f.path + `/a:3: flags.migStratgy: unknown field; did you mean "migStrategy"?`},
		"in an environment variable":       {"b", over("mig-strategy", "mixd", "MIG_STRATEGY"), `MIG_STRATEGY: unknown MIG strategy: mixd; did you mean "mixed"?`},
		"in a flag":                        {"b", over("device-id-strategy", "name", "--device-id-strategy"), "--device-id-strategy: invalid --device-id-strategy option: name; use uuid or index"},
		"a flag that is true or false":     {"b", over("gds-enabled", "maybe", "--gds-enabled"), `--gds-enabled: must be true or false, found "maybe"`},
		"Xid errors":                       {"b", over("disable-health-checks", "79,ecc", "DP_DISABLE_HEALTHCHECKS"), `DP_DISABLE_HEALTHCHECKS: must be all, xids, or comma-separated Xid numbers, found "ecc"`},
		"IMEX channels":                    {"b", over("imex-channel-ids", "0,1", "IMEX_CHANNEL_IDS"), "IMEX_CHANNEL_IDS: invalid IMEX config: channelIDs must be [] or [0]; found [0 1]; write [0], or leave imex out"},
		"IMEX channels that are no number": {"b", over("imex-channel-ids", "all", "IMEX_CHANNEL_IDS"), `IMEX_CHANNEL_IDS: must be comma-separated whole numbers, found "all"`},
		"a list of strategies":             {"b", over("device-list-strategy", "envvar,cdi", "DEVICE_LIST_STRATEGY"), "DEVICE_LIST_STRATEGY: invalid --device-list-strategy option: invalid strategy: cdi; use envvar, volume-mounts, cdi-annotations or cdi-cri"},
	} {
		c := settings.Read(settings.Options{Dir: f.path, Over: tt.over}, tt.label)
		if c.Err == nil || c.Err.Error() != tt.want {
			t.Errorf("%s: Read: %v\nwant %s", name, c.Err, tt.want)
		}
	}
}

func TestReadOfOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	c := settings.Read(settings.Options{File: path}, "")
	if c.Err == nil || !strings.HasSuffix(c.Err.Error(), "no such file or directory; add the file, or change config-file") {
		t.Errorf("Read of no file: %v", c.Err)
	}
	if err := os.WriteFile(path, make([]byte, 1<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	c = settings.Read(settings.Options{File: path}, "")
	if c.Err == nil || !strings.Contains(c.Err.Error(), "is too large: more than 1 MiB") {
		t.Errorf("Read of a huge file: %v", c.Err)
	}
}

func TestFlagsAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range settings.Flags() {
		if seen[f.Name] || f.Usage == "" {
			t.Errorf("flag %s: twice, or without usage", f.Name)
		}
		seen[f.Name] = true
	}
}
