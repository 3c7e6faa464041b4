package exporter_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/agent/exporter"
)

func TestParseFields(t *testing.T) {
	const good, served = "DCGM_FI_DEV_GPU_TEMP, gauge, Temperature.\n", "DCGM_FI_DEV_GPU_TEMP"
	for _, c := range []struct {
		name, text string
		want       []string
		faults     []string // "reason text"
	}{
		{
			name: "lines, comments and blank lines as in dcgm-exporter's own file",
			text: "# Format\n# If line starts with a '#' it is a comment\n\nDCGM_FI_DEV_SM_CLOCK,  gauge, SM clock frequency (in MHz).\n  \nDCGM_FI_DEV_DEC_UTIL ,     gauge, Decoder utilization (in %).\nDCGM_FI_DRIVER_VERSION, label, Driver Version\n",
			want: []string{"DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_DEC_UTIL"},
		},
		{
			name: "what takes DCGM is left out", want: []string{served},
			text: "DCGM_EXP_P2P_STATUS, counter, Links.\n" + good + "DCGM_EXP_XID_ERRORS_COUNT, gauge, Xids.\nDCGM_FI_DEV_SERIAL, label, Serial.\n",
			faults: []string{
				"dcgm f.csv:1: DCGM_EXP_P2P_STATUS is omitted: made by DCGM itself, not by NVML",
				"dcgm f.csv:4: DCGM_FI_DEV_SERIAL is omitted: a text that does not change: no series needs it as a label, and every label makes each series longer",
			},
		},
		{
			name: "a further field of the driver's", text: "DCGM_FI_DEV_FB_TOTAL, gauge, All of it.\n",
			want: []string{"DCGM_FI_DEV_FB_TOTAL"},
		},
		{
			name: "a name that is none", text: "#\nDCGM_FI_DEV_GPU_TMP, gauge, x\n" + good, want: []string{served},
			faults: []string{"unknown f.csv:2: DCGM_FI_DEV_GPU_TMP is not a field of DCGM's that Berth knows; did you mean DCGM_FI_DEV_GPU_TEMP?"},
		},
		{
			name: "a name far from any", text: "node_load1, gauge, x\n" + good, want: []string{served},
			faults: []string{"unknown f.csv:1: node_load1 is not a field of DCGM's that Berth knows; remove the line"},
		},
		{
			name: "two columns", text: good + "DCGM_FI_DEV_SM_CLOCK, gauge\n", want: []string{served},
			faults: []string{"wrong f.csv:2: 2 columns of three: FIELD, gauge|counter|label, help"},
		},
		{
			name: "a type of another kind", text: "DCGM_FI_DEV_SM_CLOCK, histogram, x\n" + good, want: []string{served},
			faults: []string{`wrong f.csv:1: DCGM_FI_DEV_SM_CLOCK has the type "histogram"; write gauge, counter or label`},
		},
		{
			name: "a number as a label", text: "DCGM_FI_DEV_SM_CLOCK, label, x\n" + good, want: []string{served},
			faults: []string{"wrong f.csv:1: DCGM_FI_DEV_SM_CLOCK cannot be a label: only DCGM_FI_DRIVER_VERSION can"},
		},
		{
			name: "a text as a gauge", text: "DCGM_FI_DRIVER_VERSION, gauge, x\n" + good, want: []string{served},
			faults: []string{"wrong f.csv:1: DCGM_FI_DRIVER_VERSION is text; write label as its type"},
		},
		{
			name: "a field twice", text: good + "\nDCGM_FI_DEV_GPU_TEMP, gauge, y\n", want: []string{served},
			faults: []string{"wrong f.csv:3: DCGM_FI_DEV_GPU_TEMP is already on line 1; remove one of them"},
		},
		{
			name: "a quote that does not end costs its line", text: "\"DCGM_FI_DEV_SM_CLOCK, gauge, x\n" + good, want: []string{served},
			faults: []string{"wrong f.csv:1: 1 columns of three: FIELD, gauge|counter|label, help"},
		},
		{
			name: "an empty file gives the default set", text: "# nothing\n", want: new(exporter.Fields).Names(),
			faults: []string{"unread f.csv: no field can be served, so the default set is served; remove the file if you want that"},
		},
		{
			name: "so does one in which all is wrong", text: "a,b,c\n", want: new(exporter.Fields).Names(),
			faults: []string{
				`wrong f.csv:1: a has the type "b"; write gauge, counter or label`,
				"unread f.csv: no field can be served, so the default set is served; remove the file if you want that",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, faults := exporter.ParseFields("f.csv", []byte(c.text))
			if d := cmp.Diff(c.want, f.Names()); d != "" {
				t.Errorf("fields (-want +got):\n%s", d)
			}
			var got []string
			for _, fault := range faults {
				got = append(got, fault.Reason+" "+fault.Text)
			}
			if d := cmp.Diff(c.faults, got); d != "" {
				t.Errorf("faults (-want +got):\n%s", d)
			}
		})
	}
}

func TestAFileOfFieldsChoosesTypeHelpAndLabels(t *testing.T) {
	f, faults := exporter.ParseFields("f.csv", []byte("DCGM_FI_DEV_POWER_MGMT_LIMIT, gauge, \"Limit, in W.\"\nDCGM_FI_DEV_GPU_TEMP, counter, Warm\n"))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	o, devs := scrape()
	o.Fields = f
	text := write(t, o, devs[:1])
	want := "# HELP DCGM_FI_DEV_POWER_MGMT_LIMIT Limit, in W.\n# TYPE DCGM_FI_DEV_POWER_MGMT_LIMIT gauge\n"
	if !strings.HasPrefix(text, want) || !strings.Contains(text, "# TYPE DCGM_FI_DEV_GPU_TEMP counter\n") ||
		strings.Contains(text, "DCGM_FI_DRIVER_VERSION") || strings.Contains(text, "DCGM_FI_DEV_FB_USED") {
		t.Errorf("Write gives\n%s", text)
	}
}

func FuzzParseFields(f *testing.F) {
	f.Add("DCGM_FI_DEV_GPU_TEMP, gauge, x\n")
	f.Add("\"\"\"\n,,,\n#")
	f.Fuzz(func(t *testing.T, text string) {
		fields, _ := exporter.ParseFields("f", []byte(text))
		names := fields.Names()
		slices.Sort(names)
		if len(names) == 0 || len(slices.Compact(names)) != len(fields.Names()) {
			t.Errorf("ParseFields(%q) gives %v", text, fields.Names())
		}
		o, devs := scrape()
		o.Fields = fields
		write(t, o, devs)
	})
}
