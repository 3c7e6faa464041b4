package config_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/internal/strictyaml"
)

func TestParse(t *testing.T) {
	gpu4 := map[string]int{"nvidia.com/gpu": 4}
	slicing := gpu.Sharing{Strategy: gpu.SharingTimeSlicing, Replicas: gpu4}
	tests := []struct {
		name, text string
		want       gpu.Sharing
		warnings   []string
	}{
		{name: "an empty file", text: ""},
		{name: "a comment only", text: "# nothing\n"},
		{name: "a version only", text: "version: v1\n"},
		{name: "time-slicing", text: `
version: v1
sharing:
  timeSlicing:
    renameByDefault: false
    failRequestsGreaterThanOne: false
    resources:
    - name: nvidia.com/gpu
      replicas: 4  # each GPU appears as four
`, want: slicing},
		{name: "without a version", text: "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}", want: slicing},
		{name: "JSON, with tabs", text: "{\n\t\"version\": \"v1\",\n\t\"sharing\": {\"timeSlicing\": {\"resources\": [{\"name\": \"nvidia.com/gpu\", \"replicas\": 4}]}}\n}", want: slicing},
		{name: "a name without its prefix", text: "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4}]}}", want: slicing},
		{name: "all devices, in so many words", text: "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4, devices: all}]}}", want: slicing},
		{
			name: "renamed shares and one a request", text: "sharing: {timeSlicing: {renameByDefault: true, failRequestsGreaterThanOne: yes, resources: [{name: gpu, replicas: 4}]}}",
			want: gpu.Sharing{Strategy: gpu.SharingTimeSlicing, Replicas: gpu4, RenameByDefault: true, FailRequestsGreaterThanOne: true},
		},
		{
			name: "MPS allows one share a request unless told", text: "sharing: {mps: {resources: [{name: gpu, replicas: 4}]}}",
			want: gpu.Sharing{Strategy: gpu.SharingMPS, Replicas: gpu4, FailRequestsGreaterThanOne: true},
		},
		{
			name: "MPS that is told", text: "sharing: {mps: {failRequestsGreaterThanOne: false, resources: [{name: gpu, replicas: 4}]}}",
			want: gpu.Sharing{Strategy: gpu.SharingMPS, Replicas: gpu4},
		},
		{
			name: "MIG profiles shared", text: "flags: {migStrategy: mixed}\nsharing: {timeSlicing: {resources: [{name: nvidia.com/mig-1g.5gb, replicas: 2}]}}",
			want: gpu.Sharing{MIGStrategy: gpu.MIGMixed, Strategy: gpu.SharingTimeSlicing, Replicas: map[string]int{"nvidia.com/mig-1g.5gb": 2}},
		},
		{name: "a null strategy is none", text: "sharing: {timeSlicing: null}"},
		{name: "every flag", text: `
version: v1
flags:
  migStrategy: single
  failOnInitError: true
  mpsRoot: /run/nvidia/mps
  nvidiaDriverRoot: /
  nvidiaDevRoot: /
  gdrcopyEnabled: false
  gdsEnabled: false
  mofedEnabled: false
  useNodeFeatureAPI: true
  deviceDiscoveryStrategy: auto
  plugin:
    passDeviceSpecs: false
    deviceListStrategy: [envvar, cdi-cri]
    deviceIDStrategy: uuid
    cdiAnnotationPrefix: cdi.k8s.io/
    nvidiaCTKPath: /usr/bin/nvidia-ctk
    containerDriverRoot: /driver-root
    sharedDevicesAllocationPolicy: packed
  gfd: {oneshot: false, noTimestamp: true, sleepInterval: infinite, outputFile: /x, machineTypeFile: /y}
imex: {channelIDs: [0], required: true}
`, want: gpu.Sharing{MIGStrategy: gpu.MIGSingle, Packed: true}},
		{name: "a device list strategy as text, a sleep as a number", text: "flags: {plugin: {deviceListStrategy: volume-mounts}, gfd: {sleepInterval: 60000000000}}"},
		{
			name: "device list strategies with commas", text: `flags: {plugin: {deviceListStrategy: "envvar,cdi-annotations"}}`,
			warnings: []string{"f.yaml:1: flags.plugin.deviceListStrategy: a list in one string; it is read as a list; write a list: [envvar, cdi-annotations]"},
		},
		{name: "what the plugin ignores", text: `resources:
  gpus:
  - {pattern: "*", name: gpu}
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: 4
      rename: nvidia.com/gpu.slice
      devices: [0, "1:0", GPU-4cf8db2d]
`, want: slicing, warnings: []string{
			"f.yaml:2: resources.gpus: NVIDIA's plugin ignores this; delete it",
			"f.yaml:10: sharing.timeSlicing.resources[0].devices: all devices are shared, as NVIDIA's plugin does; add renameByDefault: true, and these are nvidia.com/gpu.shared and the others stay nvidia.com/gpu",
			"f.yaml:9: sharing.timeSlicing.resources[0].rename: NVIDIA's plugin ignores this; use renameByDefault: true for nvidia.com/gpu.shared",
		}},
		{
			// NVIDIA/k8s-device-plugin#404, #628, #669: some GPUs of a node shared, and
			// others whole.
			name: "some devices shared under another name", text: `sharing:
  timeSlicing:
    renameByDefault: true
    resources:
    - name: nvidia.com/gpu
      replicas: 10
      devices: [0, "1:0", GPU-4cf8db2d]
    - {name: nvidia.com/mig-1g.5gb, replicas: 2, devices: 2}
`, want: gpu.Sharing{
				Strategy: gpu.SharingTimeSlicing, RenameByDefault: true, Replicas: map[string]int{"nvidia.com/gpu": 10, "nvidia.com/mig-1g.5gb": 2},
				Devices: map[string][]string{"nvidia.com/gpu": {"0", "1:0", "GPU-4cf8db2d"}, "nvidia.com/mig-1g.5gb": {"0", "1"}},
			}, warnings: []string{
				"f.yaml:7: sharing.timeSlicing.resources[0].devices: NVIDIA's plugin would share all devices",
				"f.yaml:8: sharing.timeSlicing.resources[1].devices: NVIDIA's plugin would share all devices",
			},
		},
		{
			name: "a resource that no device has", text: "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpus, replicas: 4}]}}",
			want: gpu.Sharing{Strategy: gpu.SharingTimeSlicing, Replicas: map[string]int{"nvidia.com/gpus": 4}},
			warnings: []string{
				"f.yaml:1: sharing.timeSlicing.resources[0].name: no device has the resource nvidia.com/gpus; use nvidia.com/gpu, or nvidia.com/mig- and a profile",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, warnings, err := config.Parse("f.yaml", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Parse (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// rows: NB-49 ML-58
func TestParseRefusesReplicasWithoutResources(t *testing.T) {
	const text = "sharing:\n  timeSlicing:\n    replicas: 4  # four pods on each GPU\n"
	_, _, err := config.Parse("time-slicing/any", []byte(text))
	want := &strictyaml.Error{
		File: "time-slicing/any", Line: 3, Field: "sharing.timeSlicing.replicas",
		Message: "no resources specified: replicas is a field of each resource, and alone it shares nothing",
		Fix:     "write timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}",
	}
	var got *strictyaml.Error
	if !errors.As(err, &got) {
		t.Fatalf("Parse: %v, want a *strictyaml.Error", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
	// The fix is itself a configuration that shares as was meant.
	_, snippet, _ := strings.Cut(got.Fix, "write ")
	s, _, err := config.Parse("fix", []byte("sharing: {"+snippet+"}"))
	if err != nil || s.Replicas["nvidia.com/gpu"] != 4 || s.Strategy != gpu.SharingTimeSlicing {
		t.Errorf("the fix parses to %+v, %v", s, err)
	}
}

func TestParseRefuses(t *testing.T) {
	resource := func(entry string) string { return "sharing: {timeSlicing: {resources: [" + entry + "]}}" }
	plugin := func(field string) string { return "flags: {plugin: {" + field + "}}" }
	const at = "f.yaml:1: sharing.timeSlicing.resources[0]"
	tests := []struct{ name, text, want string }{
		{"an unknown version", "version: v2", "f.yaml:1: version: unknown version: v2; write version: v1"},
		{"an unknown field", "version: v1\nsharing:\n  timeSlicng: {}", `f.yaml:3: sharing.timeSlicng: unknown field; did you mean "timeSlicing"?`},
		{"an unknown field like no other", "color: red", "f.yaml:1: color: unknown field; known fields are version, flags, resources, sharing, imex"},
		{"a field given twice", "version: v1\nversion: v1", "f.yaml:2: version: given twice, first at line 1; keep one"},
		{"not YAML", "version: v1\n  flags: [", "f.yaml:2: not YAML: mapping values are not allowed in this context; check indentation, colons and quotes near this line"},
		{"two documents", "version: v1\n---\nversion: v1", "f.yaml:2: more than one document; keep one, and remove the lines from --- on"},
		{"a list for a file", "- version: v1", "f.yaml:1: must be a mapping (key: value), found a list"},
		{"an empty strategy", "sharing:\n  mps: {}", "f.yaml:2: sharing.mps: no resources specified; write mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}"},
		{
			"an empty list of resources", "sharing:\n  timeSlicing:\n    resources: []",
			"f.yaml:2: sharing.timeSlicing: no resources specified; write timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}",
		},
		{
			"both strategies", "sharing:\n  timeSlicing: {resources: [{name: gpu, replicas: 2}]}\n  mps: {resources: [{name: gpu, replicas: 2}]}",
			"f.yaml:1: sharing: mps and timeSlicing are both set, and NVIDIA's plugin would use mps without a warning; remove one of them",
		},
		{"no name", resource("{replicas: 2}"), at + ": no resource name specified; add name: nvidia.com/gpu"},
		{"no replicas", resource("{name: gpu}"), at + ": no replicas specified; add replicas: 2, or more"},
		{"more replicas than memory holds", resource("{name: gpu, replicas: 3000000}"), at + ".replicas: number of replicas must be <= 1000; found 3000000; a share is at least a thousandth of a GPU"},
		{"more replicas than a number holds", resource("{name: gpu, replicas: 99999999999999999999}"), at + ".replicas: must be a whole number, found 99999999999999999999"},
		{"one replica", resource("{name: gpu, replicas: 1}"), at + ".replicas: number of replicas must be >= 2; found 1; leave nvidia.com/gpu out to offer it whole"},
		{"replicas as text", resource(`{name: gpu, replicas: "4"}`), at + `.replicas: must be a whole number, found "4"`},
		{
			"a resource twice", resource("{name: gpu, replicas: 2}, {name: nvidia.com/gpu, replicas: 3}"),
			"f.yaml:1: sharing.timeSlicing.resources[1].name: nvidia.com/gpu is given twice; keep one",
		},
		{
			"a long name", resource("{name: " + strings.Repeat("a", 60) + ", replicas: 2}"),
			at + ".name: fully-qualified resource name must be 63 characters or less: nvidia.com/" + strings.Repeat("a", 60) + "; shorten it by 8",
		},
		{
			"a malformed name", resource("{name: GPU_1, replicas: 2}"),
			at + ".name: incorrect format for resource name 'GPU_1'; use nvidia.com/gpu, or nvidia.com/mig- and a profile",
		},
		{
			"devices as another word", resource("{name: gpu, replicas: 2, devices: some}"),
			at + ".devices: devices set as 'some' but the only valid string input is 'all'; leave devices out: all are shared",
		},
		{
			"no devices", resource("{name: gpu, replicas: 2, devices: 0}"),
			at + ".devices: devices set as '0' but a count of devices must be > 0; leave devices out: all are shared",
		},
		{
			"a device that is none", resource("{name: gpu, replicas: 2, devices: [0, x]}"),
			at + ".devices[1]: unsupported type for device in devices list; use an index, \"GPU:index\" of a MIG device, or a UUID",
		},
		{
			"devices as a mapping", resource("{name: gpu, replicas: 2, devices: {a: b}}"),
			at + ".devices: unrecognized type for devices spec: a mapping; leave devices out: all are shared",
		},
		{
			"MPS for a MIG device", "sharing: {mps: {resources: [{name: nvidia.com/mig-1g.5gb, replicas: 2}]}}",
			"f.yaml:1: sharing.mps.resources[0].name: sharing using MPS is not supported for MIG devices; use timeSlicing",
		},
		{
			"MPS with strategy mixed", "flags: {migStrategy: mixed}\nsharing: {mps: {resources: [{name: gpu, replicas: 2}]}}",
			"f.yaml:1: flags.migStrategy: using --mig-strategy=mixed is not supported with MPS; use timeSlicing, or another migStrategy",
		},
		{
			"MPS with no root", "flags: {mpsRoot: \"\"}\nsharing: {mps: {resources: [{name: gpu, replicas: 2}]}}",
			"f.yaml:1: flags.mpsRoot: using MPS requires --mps-root to be specified; write mpsRoot: /run/nvidia/mps, or leave it to the plugin's environment",
		},
		{"a MIG strategy with a slip", "flags: {migStrategy: mixd}", `f.yaml:1: flags.migStrategy: unknown MIG strategy: mixd; did you mean "mixed"?`},
		{"a MIG strategy like no other", "flags: {migStrategy: always}", "f.yaml:1: flags.migStrategy: unknown MIG strategy: always; use none, single or mixed"},
		{
			"a discovery strategy", "flags: {deviceDiscoveryStrategy: x}",
			"f.yaml:1: flags.deviceDiscoveryStrategy: invalid --device-discovery-strategy option: x; use auto, nvml, tegra or vfio",
		},
		{
			"a device list strategy", plugin("deviceListStrategy: envvars"),
			`f.yaml:1: flags.plugin.deviceListStrategy: invalid --device-list-strategy option: invalid strategy: envvars; did you mean "envvar"?`,
		},
		{
			"device list strategies with commas, one of them unknown", plugin(`deviceListStrategy: "envvar,cdi-cro"`),
			`f.yaml:1: flags.plugin.deviceListStrategy: invalid --device-list-strategy option: invalid strategy: cdi-cro; did you mean "cdi-cri"?`,
		},
		{
			"a device list strategy as a number", plugin("deviceListStrategy: 3"),
			"f.yaml:1: flags.plugin.deviceListStrategy: invalid deviceListStrategy: 3; use envvar, or a list such as [envvar, cdi-cri]",
		},
		{
			"CDI where there is no NVML", "flags: {deviceDiscoveryStrategy: tegra, plugin: {deviceListStrategy: cdi-cri}}",
			"f.yaml:1: flags.plugin.deviceListStrategy: CDI --device-list-strategy options are only supported on NVML-based systems; use envvar or volume-mounts",
		},
		{"a device ID strategy", plugin("deviceIDStrategy: name"), "f.yaml:1: flags.plugin.deviceIDStrategy: invalid --device-id-strategy option: name; use uuid or index"},
		{
			"an allocation policy", plugin("sharedDevicesAllocationPolicy: pack"),
			`f.yaml:1: flags.plugin.sharedDevicesAllocationPolicy: invalid --shared-devices-allocation-policy option: pack; did you mean "packed"?`,
		},
		{"a sleep", "flags: {gfd: {sleepInterval: soon}}", `f.yaml:1: flags.gfd.sleepInterval: invalid duration: "soon"; use a duration such as 60s, or infinite`},
		{
			"resources without a pattern", "resources: {gpus: [{name: gpu}]}",
			"f.yaml:1: resources.gpus[0]: resources must have a 'pattern' field set; add one, or delete resources: the plugin ignores it",
		},
		{
			"resources without a name", "resources: {mig: [{pattern: '*'}]}",
			"f.yaml:1: resources.mig[0]: resources must have a 'name' field set; add one, or delete resources: the plugin ignores it",
		},
		{
			"IMEX channels", "imex: {channelIDs: [0, 1]}",
			"f.yaml:1: imex.channelIDs: invalid IMEX config: channelIDs must be [] or [0]; found [0 1]; write [0], or leave imex out",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := config.Parse("f.yaml", []byte(tt.text))
			if err == nil || err.Error() != tt.want {
				t.Errorf("Parse: %v\nwant   %s", err, tt.want)
			}
			if err != nil && !cmp.Equal(got, gpu.Sharing{}) {
				t.Errorf("Parse refused, and gave %+v", got)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	v100, _ := gpu.Find("Tesla V100-SXM2-16GB")
	s, _, err := config.Parse("f.yaml", []byte("sharing: {mps: {resources: [{name: gpu, replicas: 20}]}}"))
	if err != nil {
		t.Fatal(err)
	}
	err = config.Check(s, gpu.Node{GPUs: gpu.New("n1", v100, 1)})
	if err == nil || !strings.HasPrefix(err.Error(), "maximum allowed replicas exceeded: 20 > 16") {
		t.Errorf("Check: %v", err)
	}
	s.Strategy = gpu.SharingTimeSlicing
	if err := config.Check(s, gpu.Node{GPUs: gpu.New("n1", v100, 1)}); err != nil {
		t.Errorf("Check of time-slicing: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "version: v1", "sharing: {timeSlicing: {replicas: 4}}", "{\"version\": \"v1\"}", "a: &a [*a]", "? {a: b}\n: c",
		"sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4, devices: [0, '1:0']}]}}",
		"flags: {plugin: {deviceListStrategy: [envvar]}, gfd: {sleepInterval: 1s}}\nimex: {channelIDs: [0]}",
		"x: &x {<<: *x}", "- &a\n- *a\n---\n", "sharing: &s {timeSlicing: *s, mps: *s}",
		"sharing: {timeSlicing: {resources: [{name: gpu, replicas: 3000000}]}}", "flags: {gfd: {sleepInterval: 1e300}}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, _, err := config.Parse("f", data)
		var known *strictyaml.Error
		if err != nil && (!errors.As(err, &known) || known.Message == "") {
			t.Fatalf("Parse: %v is not a *strictyaml.Error with a message", err)
		}
		for name, n := range s.Replicas {
			if n < 2 || n > sharing.MostReplicas || !strings.HasPrefix(name, "nvidia.com/") || !slices.Contains([]gpu.SharingStrategy{gpu.SharingMPS, gpu.SharingTimeSlicing}, s.Strategy) {
				t.Fatalf("Parse = %+v", s)
			}
		}
	})
}

func TestAPartOfAnotherFileKeepsItsLines(t *testing.T) {
	var f struct {
		Sharing yaml.Node `json:"sharing"`
	}
	if err := strictyaml.Decode("f", []byte("host: example\nport:\nsharing:\n  version: v2\n"), &struct {
		Host string     `json:"host"`
		Port int        `json:"port"`
		Node *yaml.Node `json:"sharing"`
	}{Node: &f.Sharing}); err != nil {
		t.Fatal(err)
	}
	_, _, err := config.ParseNode("f", &f.Sharing)
	if want := "f:4: version: unknown version: v2; write version: v1"; fmt.Sprint(err) != want {
		t.Errorf("ParseNode: %v, want %s", err, want)
	}
	if _, _, err := config.ParseNode("f", &yaml.Node{}); err != nil {
		t.Errorf("ParseNode of an empty node: %v", err)
	}
}
