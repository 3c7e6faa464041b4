package profile_test

import (
	"strings"
	"testing"

	"berth.dev/berth/core/profile"
)

// rows: JH-22 ML-19
func TestBytes(t *testing.T) {
	for _, tt := range []struct {
		in   any
		want int64 // -1 is an error
	}{
		{"4G", 4294967296},
		{"14G", 15032385536},
		{"2G", 2147483648},
		{"0.5K", 512},
		{"1.5M", 1572864},
		{"1T", 1 << 40},
		{"1.0001K", 1024},
		{int64(1000), 1000},
		{1000.9, 1000},
		{int64(0), 0},
		{" 3 G", 3 << 30},
		{"4Gi", -1},
		{"4GB", -1},
		{"4g", -1},
		{"1024", -1},
		{"", -1},
		{"G", -1},
		{"-1G", -1},
		{int64(-1), -1},
		{"NaNG", -1},
		{"1e30G", -1},
		{true, -1},
		{nil, -1},
		{"0x1G", -1},
	} {
		got, err := profile.Bytes(tt.in)
		if err != nil {
			got = -1
		}
		if got != tt.want {
			t.Errorf("Bytes(%v) = %d (%v), want %d", tt.in, got, err, tt.want)
		}
	}
}

// rows: JH-13
func TestSlugify(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA Tesla T4, ~16 GB, ~4 CPUs": "nvidia-tesla-t4-16-gb-4-cpus",
		"CPU Only (2 cores, 4GB)":          "cpu-only-2-cores-4gb",
		"GPU (1x Tesla T4, 8GB)":           "gpu-1x-tesla-t4-8gb",
		"  --Étude de cas--  ":             "etude-de-cas",
		"1,000 cores, 2,5 GB":              "1000-cores-25-gb",
		"Bob's Straße ’quoted’ Œuvre":      "bob-s-strasse-quoted-oeuvre",
		"Intel® Xeon™ 2 × T4":              "intel-r-xeontm-2-x-t4",
		"x\u200by ↷z":                      "",
		"a→b✨c ☕ d\ufe0fe":                 "a-bc-d-e",
		"🚀 Fast":                           "fast",
		"R &amp; Python":                   "r-python",
		"already-a-slug":                   "already-a-slug",
		"under_score.and.dots":             "under-score-and-dots",
		"日本語":                              "",
		"⁂":                                "",
		"!!!":                              "",
		"caf&eacute;":                      "",
	} {
		got, err := profile.Slugify(name)
		if (err != nil) != (want == "") || got != want {
			t.Errorf("Slugify(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestFormat(t *testing.T) {
	values := map[string]string{"username": "ada", "empty": ""}
	for _, tt := range []struct{ in, want, err string }{
		{in: "claim-{username}", want: "claim-ada"},
		{in: "{username}{username}{empty}", want: "adaada"},
		{in: "{{username}} is {username}", want: "{username} is ada"},
		{in: "no places", want: "no places"},
		{in: "{nobody}", err: "nothing is known as {nobody}"},
		{in: "{username.__class__}", err: "not a plain name"},
		{in: "{username!r}", err: "not a plain name"},
		{in: "{username:>9}", err: "not a plain name"},
		{in: "{0}", err: "not a plain name"},
		{in: "{}", err: "not a plain name"},
		{in: "{username", err: "stands alone"},
		{in: "a } b", err: "stands alone"},
		{in: `{"json": 1}`, err: "not a plain name"},
	} {
		got, err := profile.Format(tt.in, func(name string) (string, bool) { v, ok := values[name]; return v, ok })
		switch {
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("Format(%q): error %v, want one with %q", tt.in, err, tt.err)
		case tt.err == "" && (err != nil || got != tt.want):
			t.Errorf("Format(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
}
