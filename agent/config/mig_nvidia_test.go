package config_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/mig"
)

// defaultProfiles are the profiles of NVIDIA's default configuration, of mig-parted
// v0.15 and the GPU Operator, with how many of them a GPU is cut into: each has a
// configuration of its own, all- and the profile with dots for its pluses.
const defaultProfiles = `
1g.5gb:7 1g.5gb+me:1 2g.10gb:3 3g.20gb:2 4g.20gb:1 7g.40gb:1
1g.24gb+gfx:4 1g.24gb+me.all:1 1g.24gb-me:4 2g.48gb:2 2g.48gb+gfx:2 2g.48gb+me.all:1 2g.48gb-me:2 4g.96gb:1 4g.96gb+gfx:1
1g.10gb+me:1 1g.20gb:4 2g.20gb:3 3g.40gb:2 4g.40gb:1 7g.80gb:1 1g.6gb:4 1g.6gb+me:1 2g.12gb:2 2g.12gb+me:1 4g.24gb:1
1g.12gb:7 1g.12gb+me:1 1g.24gb:4 2g.24gb:3 1g.24gb+me:1 1g.47gb:4 2g.47gb:3 3g.93gb:2 4g.93gb:1 7g.186gb:1
3g.47gb:2 4g.47gb:1 7g.94gb:1 3g.48gb:2 4g.48gb:1 7g.96gb:1 1g.18gb:7 1g.18gb+me:1 1g.23gb:7 1g.23gb+me:1
2g.35gb:3 3g.71gb:2 4g.71gb:1 7g.141gb:1 1g.34gb:7 1g.34gb+me:1 1g.35gb+me:1 1g.36gb:4 1g.45gb:4 1g.67gb:4 1g.70gb:4
2g.36gb:3 2g.45gb:3 2g.67gb:3 2g.70gb:3 3g.72gb:2 3g.90gb:2 3g.95gb:2 3g.135gb:2 3g.139gb:2 4g.72gb:1 4g.90gb:1 4g.95gb:1
4g.135gb:1 4g.139gb:1 7g.144gb:1 7g.180gb:1 7g.189gb:1 7g.269gb:1 7g.278gb:1`

// balanced are the entries of its all-balanced: products by PCI ID, and devices.
var balanced = []struct{ filter, devices string }{
	{`["0x294110DE"]`, "1g.23gb:2 2g.47gb:1 3g.93gb:1"},
	{`["0x31C210DE"]`, "1g.35gb:2 2g.70gb:1 3g.139gb:1"},
	{`["0x2BB510DE"]`, "1g.24gb:2 2g.48gb:1"},
	{`["0x290110DE"]`, "1g.23gb:2 2g.45gb:1 3g.90gb:1"},
	{`["0x318210DE"]`, "1g.34gb:2 2g.67gb:1 3g.135gb:1"},
	{`["0x234810DE"]`, "1g.18gb:2 2g.36gb:1 3g.72gb:1"},
	{`["0x233510DE", "0x233B10DE"]`, "1g.18gb:2 2g.35gb:1 3g.71gb:1"},
	{`["0x232110DE", "0x233A10DE"]`, "1g.12gb:2 2g.24gb:1 3g.47gb:1"},
	{`["0x233010DE", "0x233110DE", "0x20B210DE", "0x20B510DE"]`, "1g.10gb:2 2g.20gb:1 3g.40gb:1"},
	{`["0x20B010DE", "0x20B110DE", "0x20F110DE"]`, "1g.5gb:2 2g.10gb:1 3g.20gb:1"},
	{`"0x20B710DE"`, "1g.6gb:2 2g.12gb:1"}, // one filter as text
	{`["0x234210DE", "0x232910DE"]`, "1g.12gb:2 2g.24gb:1 3g.48gb:1"},
}

// entryOf writes an entry for devices such as "1g.5gb:7".
func entryOf(filter, devices string) string {
	text := "    - devices: all\n      mig-enabled: true\n      mig-devices:\n"
	if filter != "" {
		text = "    - device-filter: " + filter + "\n" + strings.Replace(text, "- ", "  ", 1)
	}
	for d := range strings.FieldsSeq(devices) {
		i := strings.LastIndex(d, ":")
		text += fmt.Sprintf("        %q: %s\n", d[:i], d[i+1:])
	}
	return text
}

func nvidiaDefault() string {
	text := "version: v1\nmig-configs:\n  all-disabled:\n    - devices: all\n      mig-enabled: false\n" +
		"  all-enabled:\n    - devices: all\n      mig-enabled: true\n      mig-devices: {}\n"
	for d := range strings.FieldsSeq(defaultProfiles) {
		profile := d[:strings.LastIndex(d, ":")]
		text += "  all-" + strings.ReplaceAll(profile, "+", ".") + ":\n" + entryOf("", d)
	}
	text += "  all-1g.10gb:\n" + entryOf(`["0x233010DE", "0x20B210DE"]`, "1g.10gb:7") + entryOf(`["0x20B010DE"]`, "1g.10gb:4")
	text += "  all-1g.35gb:\n" + entryOf(`["0x233510DE"]`, "1g.35gb:4") + entryOf(`["0x31C210DE"]`, "1g.35gb:7")
	text += "  all-balanced:\n"
	for _, b := range balanced {
		text += entryOf(b.filter, b.devices)
	}
	return text
}

// Every configuration of NVIDIA's default file is read, and each is possible on
// every product of the catalog that has its profiles.
func TestNVIDIAsDefaultConfiguration(t *testing.T) {
	file, err := config.ParseMIG("config.yaml", []byte(nvidiaDefault()))
	if err != nil || len(file.Faults)+len(file.Remarks) > 0 {
		t.Fatalf("ParseMIG: %v, faults %v, remarks %v", err, file.Faults, file.Remarks)
	}
	if want := len(strings.Fields(defaultProfiles)) + 5; len(file.Configs) != want {
		t.Errorf("%d configurations, want %d", len(file.Configs), want)
	}
	used := map[string]bool{}
	for _, p := range gpu.Products() {
		g := mig.GPU{GPU: gpu.New("n", p, 1)[0], Capable: len(p.Profiles) > 0}
		for name, c := range file.Configs {
			word := strings.TrimPrefix(name, "all-")
			_, has := p.Profile(word)
			none, _ := mig.Gaps([]mig.GPU{g}, c) // its filters are for others
			if none || !has && name != "all-balanced" {
				continue
			}
			used[name] = true
			if step := mig.Plan([]mig.GPU{g}, c)[0]; step.Wrong != "" || step.Action != mig.ModeOn {
				t.Errorf("%s on %s: %+v", name, p.Name, step)
			}
		}
	}
	// 189 GB and 95 GB are of a product that the catalog lacks.
	for _, name := range slices.Sorted(maps.Keys(file.Configs)) {
		if !used[name] && !slices.Contains([]string{"all-disabled", "all-enabled", "all-7g.189gb", "all-3g.95gb", "all-4g.95gb"}, name) {
			t.Errorf("%s is for no product", name)
		}
	}
}

// One profile that is not known costs its configuration, wherever in the file it is.
func TestOneMistakeCostsOneConfiguration(t *testing.T) {
	whole := nvidiaDefault()
	all, err := config.ParseMIG("f", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	file, err := config.ParseMIG("f", []byte(strings.Replace(whole, `"2g.48gb-me"`, `"2q.48gb-me"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	delete(all.Configs, "all-2g.48gb-me")
	if diff := cmp.Diff(all.Configs, file.Configs); diff != "" || len(file.Faults) != 1 {
		t.Errorf("faults %v, configurations (-want +got):\n%s", file.Faults, diff)
	}
	want := `mig-configs["all-2g.48gb-me"][0].mig-devices["2q.48gb-me"]: not a MIG profile: 2q.48gb-me: "2q" is not a number before "g"`
	if got := file.Faults["all-2g.48gb-me"]; got == nil || !strings.Contains(got.Error(), want) {
		t.Errorf("the fault is %v, want %s", got, want)
	}
}

// The forms of mig-parted's own tables, and what becomes of them here and there.
func TestFormsOfNVIDIAsTables(t *testing.T) {
	const good = "[{devices: all, mig-enabled: false}]"
	config1 := func(entry string) string { return "{version: v1, mig-configs: {c: [{" + entry + "}]}}" }
	for _, tt := range []struct {
		name, text         string
		theirs             bool // NVIDIA's tool reads the file
		ours               bool // configuration c can be used
		remarks, whollyBad bool
	}{
		{name: "well formed", text: "{version: v1, mig-configs: {c: " + good + "}}", theirs: true, ours: true},
		{name: "JSON", text: "{\n\t\"version\": \"v1\",\n\t\"mig-configs\": {\"c\": [{\"devices\": \"all\", \"mig-enabled\": false}]}\n}", theirs: true, ours: true},
		{name: "another version", text: "{version: v2, mig-configs: {c: " + good + "}}", whollyBad: true},
		{name: "without a version", text: "mig-configs: {c: " + good + "}", ours: true, remarks: true},
		{name: "nothing but a version", text: "version: v1", theirs: true, whollyBad: true},
		{name: "a field beside", text: "{bogus: field, version: v1, mig-configs: {c: " + good + "}}", whollyBad: true},
		{name: "no configurations", text: "{version: v1, mig-configs: {}}", whollyBad: true},
		{name: "a profile that no GPU has", text: config1(`devices: all, mig-enabled: true, mig-devices: {"0g.0gb": 7}`), theirs: true, ours: true},
		{name: "more of it than fit on any GPU", text: config1(`devices: all, mig-enabled: true, mig-devices: {"0g.0gb": 100}`), theirs: true},
		{name: "GPUs by index", text: config1("devices: [0,1,2,3], mig-enabled: false"), theirs: true, ours: true},
		{name: "no devices where MIG is off", text: config1(`device-filter: "0x20B210DE", devices: all, mig-enabled: false, mig-devices: {}`), theirs: true, ours: true},
		{name: "GPUs as a mapping", text: config1("devices: {}, mig-enabled: false")},
		{name: "GPUs as another word", text: config1("devices: bogus, mig-enabled: false")},
		{name: "a field beside in an entry", text: config1("bogus: field, devices: all, mig-enabled: false")},
		{name: "MIG without its devices", text: config1("devices: all, mig-enabled: true")},
		{name: "without mig-enabled", text: config1(`devices: all, mig-devices: {"1g.5gb": 2}`)},
		{name: "what is not a profile", text: config1("devices: all, mig-enabled: true, mig-devices: {bogus: 2}")},
		{name: "a GPU by its UUID", text: config1("devices: [GPU-5d3b9e1c-0000-0000-0000-000000000001], mig-enabled: false"), ours: true, remarks: true},
		{name: "a PCI ID as a number", text: config1("device-filter: [0x20B010DE], devices: all, mig-enabled: false"), ours: true, remarks: true},
		{name: "the PCI ID of a board", text: config1(`device-filter: "0x233010DE:0x16C010DE", devices: all, mig-enabled: false`), theirs: true, ours: true},
		{name: "a model for a filter, which matches nothing there", text: config1("device-filter: MODEL, devices: all, mig-enabled: false"), theirs: true},
		{name: "none of one profile beside others", text: config1(`devices: all, mig-enabled: true, mig-devices: {"1g.5gb": 0, "2g.10gb": 1}`), theirs: true, ours: true},
		{name: "none of the only profile", text: config1(`devices: all, mig-enabled: true, mig-devices: {"1g.5gb": 0}`)},
		{name: "compute instances", text: config1(`devices: all, mig-enabled: true, mig-devices: {"1c.3g.20gb": 3, "1c.1g.5gb+me": 1}`), theirs: true, ours: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, err := config.ParseMIG("f", []byte(tt.text))
			_, ours := file.Configs["c"]
			if ours != tt.ours || (err != nil) != tt.whollyBad || (len(file.Remarks) > 0) != tt.remarks {
				t.Errorf("ParseMIG = %+v, %v; want it used %v, with remarks %v, refused as a whole %v", file, err, tt.ours, tt.remarks, tt.whollyBad)
			}
			if tt.ours && !tt.theirs && !tt.remarks {
				t.Error("it is read here and not there, without a remark")
			}
		})
	}
}
