package exporter_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/agent/exporter"
)

func TestParseFields(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want, told []string
		err        string
	}{
		{
			name: "lines, comments and blank lines as in dcgm-exporter's own file",
			text: "# Format\n# If line starts with a '#' it is a comment\n\nDCGM_FI_DEV_SM_CLOCK,  gauge, SM clock frequency (in MHz).\n  \nDCGM_FI_DEV_DEC_UTIL ,     gauge, Decoder utilization (in %).\nDCGM_FI_DRIVER_VERSION, label, Driver Version\n",
			want: []string{"DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_DEC_UTIL"},
		},
		{
			name: "what takes DCGM is left out and told of",
			text: "DCGM_FI_PROF_SM_ACTIVE, gauge, Ratio.\nDCGM_FI_DEV_GPU_TEMP, gauge, Temperature.\nDCGM_EXP_XID_ERRORS_COUNT, gauge, Xids.\nDCGM_FI_DEV_SERIAL, label, Serial.\n",
			want: []string{"DCGM_FI_DEV_GPU_TEMP"},
			told: []string{
				"f.csv:1: DCGM_FI_PROF_SM_ACTIVE is left out: it takes DCGM, or Berth does not write it",
				"f.csv:3: DCGM_EXP_XID_ERRORS_COUNT is written anyway",
				"f.csv:4: DCGM_FI_DEV_SERIAL is left out: it takes DCGM, or Berth does not write it",
			},
		},
		{
			name: "a further field of the driver's", text: "DCGM_FI_DEV_FB_TOTAL, gauge, All of it.\n",
			want: []string{"DCGM_FI_DEV_FB_TOTAL"},
		},
		{name: "a name that is none", text: "#\nDCGM_FI_DEV_GPU_TMP, gauge, x\n", err: "f.csv:2: DCGM_FI_DEV_GPU_TMP is no field of DCGM's that Berth knows; did you mean DCGM_FI_DEV_GPU_TEMP?"},
		{name: "a name far from any", text: "node_load1, gauge, x\n", err: "f.csv:1: node_load1 is no field of DCGM's that Berth knows; take the line out"},
		{name: "two columns", text: "DCGM_FI_DEV_GPU_TEMP, gauge\n", err: "f.csv:1: 2 columns of three: FIELD, gauge|counter|label, help"},
		{name: "a type of another kind", text: "DCGM_FI_DEV_GPU_TEMP, histogram, x\n", err: `f.csv:1: DCGM_FI_DEV_GPU_TEMP has the type "histogram"; write gauge, counter or label`},
		{name: "a number as a label", text: "DCGM_FI_DEV_GPU_TEMP, label, x\n", err: "f.csv:1: DCGM_FI_DEV_GPU_TEMP cannot be a label: only DCGM_FI_DRIVER_VERSION can"},
		{name: "a text as a gauge", text: "DCGM_FI_DRIVER_VERSION, gauge, x\n", err: "f.csv:1: DCGM_FI_DRIVER_VERSION is a text; write label as its type"},
		{name: "a field twice", text: "DCGM_FI_DEV_GPU_TEMP, gauge, x\n\nDCGM_FI_DEV_GPU_TEMP, gauge, y\n", err: "f.csv:3: DCGM_FI_DEV_GPU_TEMP is on line 1 already; take one of them out"},
		{name: "an empty file", text: "# nothing\n", err: "f.csv: no field that can be written; leave the file out for the default set"},
		{name: "a quote that does not end", text: "\"DCGM_FI_DEV_GPU_TEMP, gauge, x\n", err: "f.csv:1: 1 columns of three: FIELD, gauge|counter|label, help"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, told, err := exporter.ParseFields("f.csv", []byte(c.text))
			if err != nil || c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("error is %v\nwant     %s", err, c.err)
				}
				return
			}
			if d := cmp.Diff(c.want, f.Names()); d != "" {
				t.Errorf("fields (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.told, told); d != "" {
				t.Errorf("told of (-want +got):\n%s", d)
			}
		})
	}
}

func TestAFileOfFieldsChoosesTypeHelpAndLabels(t *testing.T) {
	f, _, err := exporter.ParseFields("f.csv", []byte("DCGM_FI_DEV_POWER_MGMT_LIMIT, gauge, \"Limit, in W.\"\nDCGM_FI_DEV_GPU_TEMP, counter, Warm\n"))
	if err != nil {
		t.Fatal(err)
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
		fields, _, err := exporter.ParseFields("f", []byte(text))
		if err != nil {
			return
		}
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
