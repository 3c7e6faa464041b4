package config_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/core/mig"
	"berth.dev/berth/internal/strictyaml"
)

func TestParseMIG(t *testing.T) {
	const text = `
version: v1
mig-configs:
  all-disabled:
  - devices: all
    mig-enabled: false
  all-enabled:
  - devices: all
    mig-enabled: true
    mig-devices: {}
  all-balanced:
  - device-filter: ["0x20B010DE", 0x20b110de]
    devices: all
    mig-enabled: true
    mig-devices:
      "1g.5gb": 2
      2g.10gb: 1
      3g.20gb: 1
  - device-filter: "0x20B710DE"
    devices: [0, 1]
    mig-enabled: true
    mig-devices: {1g.6gb+me: 1}
`
	file, err := config.ParseMIG("mig.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got := file.Configs
	want := map[string]mig.Config{
		"all-disabled": {Name: "all-disabled", Entries: []mig.Entry{{All: true}}},
		"all-enabled":  {Name: "all-enabled", Entries: []mig.Entry{{All: true, Enabled: true, Devices: map[string]int{}}}},
		"all-balanced": {Name: "all-balanced", Entries: []mig.Entry{
			{Filter: []string{"0x20B010DE", "0x20b110de"}, All: true, Enabled: true, Devices: map[string]int{"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}},
			{Filter: []string{"0x20B710DE"}, Indexes: []int{0, 1}, Enabled: true, Devices: map[string]int{"1g.6gb+me": 1}},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ParseMIG (-want +got):\n%s", diff)
	}
	remark := []string{`mig.yaml:12: mig-configs.all-balanced[0].device-filter[1]: a number, which NVIDIA's MIG manager refuses; write it in quotes: "0x20b110de"`}
	if diff := cmp.Diff(remark, texts(file.Remarks)); diff != "" || len(file.Faults) > 0 {
		t.Errorf("faults %v; remarks (-want +got):\n%s", file.Faults, diff)
	}
}

func texts(errs []error) []string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}

func TestParseMIGRefuses(t *testing.T) {
	entry := func(text string) string {
		return "{version: v1, mig-configs: {a: [{" + text + "}], good: [{devices: all, mig-enabled: false}]}}"
	}
	const at = "f.yaml:1: mig-configs.a[0]"
	for _, tt := range []struct{ name, text, want string }{
		{"an empty file", "", "f.yaml: no mig-configs; write mig-configs: {all-disabled: [{devices: all, mig-enabled: false}]}"},
		{"no configurations", "version: v1", "f.yaml:1: mig-configs: no mig-configs; write mig-configs: {all-disabled: [{devices: all, mig-enabled: false}]}"},
		{"another version", "version: v2\nmig-configs: {a: [{devices: all, mig-enabled: false}]}", "f.yaml:1: version: unknown version: v2; write version: v1"},
		{"an empty configuration", "version: v1\nmig-configs:\n  good: [{devices: all, mig-enabled: false}]\n  a: []", "f.yaml:4: mig-configs.a: an empty configuration; write a: [{devices: all, mig-enabled: false}]"},
		{"an unknown field", entry("devices: all, mig-enable: true"), at + `.mig-enable: unknown field; did you mean "mig-enabled"?`},
		{"no mode", entry("devices: all"), at + ": required field missing: mig-enabled; add mig-enabled: true, or false"},
		{"no devices", entry("mig-enabled: true"), at + ".devices: required field missing: devices; write devices: all, or a list of GPU indexes such as [0, 1]"},
		{"an empty list of devices", entry("mig-enabled: true, devices: []"), at + ".devices: an empty list; write devices: all, or a list of GPU indexes such as [0, 1]"},
		{"devices as another word", entry("mig-enabled: true, devices: any"), at + `.devices: must be all or a list, found "any"; write devices: all, or a list of GPU indexes such as [0, 1]`},
		{"a name for an index", entry("mig-enabled: true, devices: [0, gpu-1]"), at + ".devices[1]: not a GPU index: \"gpu-1\"; write devices: all, or a list of GPU indexes such as [0, 1]"},
		{"an index that no node has", entry("mig-enabled: true, devices: [3000000]"), at + ".devices[0]: not a GPU index: 3000000; write devices: all, or a list of GPU indexes such as [0, 1]"},
		{"more MIG devices than memory holds", entry("mig-enabled: true, devices: all, mig-devices: {1g.5gb: 100000000}"), at + `.mig-devices["1g.5gb"]: 100000000 MIG devices are too many; write at most 64 for one GPU, over all profiles`},
		{"too many MIG devices over several profiles", entry("mig-enabled: true, devices: all, mig-devices: {1g.5gb: 40, 2g.10gb: 25}"), at + `.mig-devices["2g.10gb"]: 25 MIG devices are too many; write at most 64 for one GPU, over all profiles`},
		{"an index below 0", entry("mig-enabled: true, devices: [-1]"), at + ".devices[0]: not a GPU index: -1; write devices: all, or a list of GPU indexes such as [0, 1]"},
		{"a product for a filter", entry("mig-enabled: true, devices: all, device-filter: A100"), at + `.device-filter: not a PCI ID: "A100"; write device and vendor in hexadecimal, such as "0x20B010DE"`},
		{"devices without the mode", entry("mig-enabled: false, devices: all, mig-devices: {1g.5gb: 1}"), at + ".mig-devices: MIG devices where mig-enabled is false; write mig-enabled: true, or leave mig-devices out"},
		{"what is no profile", entry("mig-enabled: true, devices: all, mig-devices: {small: 1}"), at + ".mig-devices.small: not a MIG profile: small: it has no form like 1g.5gb; write it as nvidia-smi mig -lgip does, such as 1g.5gb"},
		{"MIG without a word about its devices", entry("devices: all, mig-enabled: true"), at + ": required field missing: mig-devices, as mig-enabled is true; add mig-devices with how many of each profile, or mig-devices: {} for none"},
		{"fewer than none of a profile", entry("mig-enabled: true, devices: all, mig-devices: {1g.5gb: -1}"), at + `.mig-devices["1g.5gb"]: must be 0 or more, found -1; leave 1g.5gb out`},
		{"none of any profile", entry("mig-enabled: true, devices: all, mig-devices: {1g.5gb: 0}"), at + ".mig-devices: all counts are 0; write mig-devices: {} for none"},
		{"attributes of both signs", entry("mig-enabled: true, devices: all, mig-devices: {1g.24gb-me+gfx: 1}"), at + `.mig-devices["1g.24gb-me+gfx"]: not a MIG profile: 1g.24gb-me+gfx: "me+gfx" is not an attribute such as me, me.all or gfx, given once; write it as nvidia-smi mig -lgip does, such as 1g.5gb`},
		{"a filter of three parts", entry(`mig-enabled: false, devices: all, device-filter: "0x233010DE:0x16C010DE:extra"`), at + `.device-filter: not a PCI ID: "0x233010DE:0x16C010DE:extra"; write device and vendor in hexadecimal, such as "0x20B010DE"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, err := config.ParseMIG("f.yaml", []byte(tt.text))
			if err == nil {
				err = file.Faults["a"] // of the one configuration
				if _, ok := file.Configs["good"]; !ok || len(file.Configs) != 1 || len(file.Faults) != 1 {
					t.Errorf("ParseMIG = %+v, want good to be the one that is left", file)
				}
			}
			if err == nil || err.Error() != tt.want {
				t.Errorf("ParseMIG: %v\nwant      %s", err, tt.want)
			}
		})
	}
}

func FuzzParseMIG(f *testing.F) {
	f.Add([]byte("mig-configs: {a: [{devices: [3000000], mig-enabled: true, mig-devices: {1g.5gb: 100000000}}]}"))
	for _, text := range []string{
		"", "mig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}]}", "mig-configs: &a {x: *a}",
		"mig-configs: {a: [{devices: [0, *x], mig-enabled: true, device-filter: [0x20B010DE]}]}", "mig-configs: {a: null}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := config.ParseMIG("f", data)
		var known *strictyaml.Error
		if err != nil && (!errors.As(err, &known) || known.Message == "") {
			t.Fatalf("ParseMIG: %v is not a *strictyaml.Error with a message", err)
		}
		if err == nil && len(file.Configs)+len(file.Faults) == 0 {
			t.Fatal("ParseMIG gave no configuration and no error")
		}
		for _, err := range file.Faults {
			if !errors.As(err, &known) || known.Message == "" {
				t.Fatalf("ParseMIG: %v is not a *strictyaml.Error with a message", err)
			}
		}
	})
}
