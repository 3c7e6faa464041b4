package config_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/core/gpu"
)

func TestDefaultSettings(t *testing.T) {
	want := config.Settings{
		FailOnInitError: true, MPSRoot: "/run/nvidia/mps", DriverRoot: "/", DevRoot: "/", Discovery: "auto",
		Plugin: config.Plugin{
			DeviceListStrategy: []string{"envvar"}, DeviceIDStrategy: "uuid", CDIAnnotationPrefix: "cdi.k8s.io/",
			CTKPath: "/usr/bin/nvidia-ctk", ContainerDriverRoot: "/driver-root",
		},
		GFD:           config.GFD{SleepInterval: time.Minute, MachineTypeFile: "/sys/class/dmi/id/product_name", UseNodeFeatureAPI: true},
		KubeletSocket: "/var/lib/kubelet/device-plugins/kubelet.sock",
	}
	if diff := cmp.Diff(want, config.DefaultSettings()); diff != "" {
		t.Errorf("DefaultSettings (-want +got):\n%s", diff)
	}
}

// Each case says what the file changes of the defaults.
func TestParseSettings(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		change     func(*config.Settings)
	}{
		{"an empty file", "", func(*config.Settings) {}},
		{"nulls", "version: v1\nflags: {mpsRoot: null, failOnInitError: null, plugin: null}\nsharing: null\nimex: null", func(*config.Settings) {}},
		{"empty texts, where there is a default", `flags: {nvidiaDriverRoot: "", plugin: {deviceIDStrategy: ""}}`, func(*config.Settings) {}},
		{"flags of both programs", "flags: {failOnInitError: false, gdrcopyEnabled: true, gdsEnabled: yes, mofedEnabled: on, useNodeFeatureAPI: false, deviceDiscoveryStrategy: nvml}", func(s *config.Settings) {
			s.FailOnInitError, s.GDRCopy, s.GDS, s.MOFED, s.GFD.UseNodeFeatureAPI, s.Discovery = false, true, true, true, false, "nvml"
		}},
		{"device nodes are where the driver is", "flags: {nvidiaDriverRoot: /run/nvidia/driver}", func(s *config.Settings) {
			s.DriverRoot, s.DevRoot = "/run/nvidia/driver", "/run/nvidia/driver"
		}},
		{"unless they are elsewhere", "flags: {nvidiaDriverRoot: /run/nvidia/driver, nvidiaDevRoot: /}", func(s *config.Settings) {
			s.DriverRoot, s.DevRoot = "/run/nvidia/driver", "/"
		}},
		{"one device list strategy", "flags: {plugin: {deviceListStrategy: cdi-cri}}", func(s *config.Settings) {
			s.Plugin.DeviceListStrategy = []string{"cdi-cri"}
		}},
		{"several, one of them twice", "flags: {plugin: {deviceListStrategy: [volume-mounts, cdi-annotations, volume-mounts]}}", func(s *config.Settings) {
			s.Plugin.DeviceListStrategy = []string{"volume-mounts", "cdi-annotations"}
		}},
		{"several in one text, with commas", `flags: {plugin: {deviceListStrategy: "envvar, cdi-annotations"}}`, func(s *config.Settings) {
			s.Plugin.DeviceListStrategy = []string{"envvar", "cdi-annotations"}
		}},
		{"an empty list of strategies", "flags: {plugin: {deviceListStrategy: []}}", func(*config.Settings) {}},
		{"the plugin's own", "flags: {plugin: {passDeviceSpecs: true, deviceIDStrategy: index, cdiAnnotationPrefix: x.io/, nvidiaCTKPath: /ctk, containerDriverRoot: /host, sharedDevicesAllocationPolicy: packed}}", func(s *config.Settings) {
			s.Plugin = config.Plugin{
				PassDeviceSpecs: true, DeviceListStrategy: []string{"envvar"}, DeviceIDStrategy: "index",
				CDIAnnotationPrefix: "x.io/", CTKPath: "/ctk", ContainerDriverRoot: "/host",
			}
			s.Packed = true
		}},
		{"GPU Feature Discovery's own", "flags: {gfd: {oneshot: true, noTimestamp: true, sleepInterval: 90s, outputFile: /x, machineTypeFile: /y}}", func(s *config.Settings) {
			s.GFD = config.GFD{Oneshot: true, NoTimestamp: true, SleepInterval: 90 * time.Second, OutputFile: "/x", MachineTypeFile: "/y", UseNodeFeatureAPI: true}
		}},
		{"a sleep without an end", "flags: {gfd: {sleepInterval: infinite}}", func(s *config.Settings) { s.GFD.SleepInterval = 0 }},
		{"a sleep in nanoseconds", "flags: {gfd: {sleepInterval: 5000000000}}", func(s *config.Settings) { s.GFD.SleepInterval = 5 * time.Second }},
		{"IMEX", "imex: {channelIDs: [0], required: true}", func(s *config.Settings) { s.IMEX = config.IMEX{ChannelIDs: []int{0}, Required: true} }},
		{"IMEX without a channel", "imex: {channelIDs: []}", func(s *config.Settings) { s.IMEX.ChannelIDs = []int{} }},
		{"sharing is what Parse gives", "flags: {migStrategy: single, mpsRoot: /mps}\nsharing: {mps: {resources: [{name: gpu, replicas: 2}]}}", func(s *config.Settings) {
			s.MPSRoot = "/mps"
			s.Sharing = gpu.Sharing{MIGStrategy: gpu.MIGSingle, Strategy: gpu.SharingMPS, Replicas: map[string]int{"nvidia.com/gpu": 2}, FailRequestsGreaterThanOne: true}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := config.DefaultSettings()
			tt.change(&want)
			got, _, err := config.ParseSettings("f.yaml", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("ParseSettings (-want +got):\n%s", diff)
			}
		})
	}
}

// What flags and the environment say is checked with what the file says.
func TestResolveChecksWhatComesOut(t *testing.T) {
	const mps = "sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}"
	for _, tt := range []struct {
		name, text string
		over       config.Value
		want       string // of the error
	}{
		{"MPS of the file with a strategy of the environment", mps, config.Value{Flag: "mig-strategy", Text: "mixed", From: "MIG_STRATEGY"}, "MIG_STRATEGY: using --mig-strategy=mixed is not supported with MPS; use timeSlicing, or another migStrategy"},
		{"a strategy of the file that the environment replaces", "flags: {migStrategy: mixed}\n" + mps, config.Value{Flag: "mig-strategy", Text: "none", From: "MIG_STRATEGY"}, ""},
		{"MPS without a root", mps, config.Value{Flag: "mps-root", From: "--mps-root"}, "--mps-root: using MPS requires --mps-root to be specified; write mpsRoot: /run/nvidia/mps, or leave it to the plugin's environment"},
		{"CDI of the file without NVML", "flags: {plugin: {deviceListStrategy: cdi-cri}}", config.Value{Flag: "device-discovery-strategy", Text: "tegra", From: "E"}, "f.yaml:1: flags.plugin.deviceListStrategy: CDI --device-list-strategy options are only supported on NVML-based systems; use envvar or volume-mounts"},
		{"a sleep", "", config.Value{Flag: "sleep-interval", Text: "60", From: "GFD_SLEEP_INTERVAL"}, `GFD_SLEEP_INTERVAL: invalid duration: "60"; use a duration such as 60s, or infinite`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := config.Resolve("f.yaml", []byte(tt.text), []config.Value{tt.over})
			if (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
				t.Errorf("Resolve: %v\nwant     %s", err, tt.want)
			}
		})
	}
}

// Every option reaches a setting, and no two reach the same.
func TestOptionsReachSettings(t *testing.T) {
	values := map[string]string{
		"mig-strategy": "mixed", "fail-on-init-error": "false", "use-node-feature-api": "false", "device-discovery-strategy": "nvml",
		"device-list-strategy": "cdi-cri", "device-id-strategy": "index", "shared-devices-allocation-policy": "packed", "sleep-interval": "1s",
		"imex-channel-ids": "0", "disable-health-checks": "79", "enable-health-checks": "13",
	}
	seen := map[string]string{}
	names := map[string]bool{}
	for _, o := range config.Options() {
		text := values[o.Flag]
		if text == "" {
			if text = "/x"; o.Bool {
				text = "true"
			}
		}
		s, _, err := config.Resolve("", nil, []config.Value{{Flag: o.Flag, Text: text, From: "--" + o.Flag}})
		if err != nil {
			t.Fatal(err)
		}
		diff := cmp.Diff(config.DefaultSettings(), s)
		if diff == "" || seen[diff] != "" {
			t.Errorf("--%s %s changes what %q does: %s", o.Flag, text, seen[diff], diff)
		}
		seen[diff] = o.Flag
		for _, env := range o.Env {
			if names[env] || env != strings.ToUpper(env) {
				t.Errorf("environment variable %s: twice, or not in capitals", env)
			}
			names[env] = true
		}
	}
}

func TestSettingsClone(t *testing.T) {
	full, _, err := config.Resolve("", []byte("sharing: {timeSlicing: {renameByDefault: true, resources: [{name: gpu, replicas: 2, devices: [0]}]}}"), []config.Value{
		{Flag: "imex-channel-ids", Text: "0"},
		{Flag: "cdi-feature-flags", Text: "a"},
		{Flag: "cdi-disable-hooks", Text: "all"},
		{Flag: "disable-health-checks", Text: "79"},
		{Flag: "enable-health-checks", Text: "13"},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := full.Clone()
	if diff := cmp.Diff(full, c); diff != "" {
		t.Fatalf("Clone (-want +got):\n%s", diff)
	}
	alike(t, "Settings", reflect.ValueOf(full), reflect.ValueOf(c))
}

// alike fails where two equal values share memory.
func alike(t *testing.T, path string, a, b reflect.Value) {
	t.Helper()
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			alike(t, path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))
		}
	case reflect.Slice, reflect.Map:
		if a.IsNil() || a.Len() == 0 || a.Pointer() == b.Pointer() {
			t.Errorf("%s is shared, or not set by the test", path)
		}
	default:
	}
}

func TestPlugin(t *testing.T) {
	for _, tt := range []struct {
		of   []string
		only bool
	}{{[]string{"cdi-cri"}, true}, {[]string{"cdi-cri", "cdi-annotations"}, true}, {[]string{"cdi-cri", "envvar"}, false}, {[]string{"volume-mounts"}, false}, {nil, false}} {
		p := config.Plugin{DeviceListStrategy: tt.of}
		if p.CDIOnly() != tt.only || p.Has("cdi-cri") != slices.Contains(tt.of, "cdi-cri") {
			t.Errorf("of %v: CDIOnly %v, Has %v", tt.of, p.CDIOnly(), p.Has("cdi-cri"))
		}
	}
}
