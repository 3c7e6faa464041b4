package doctor

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseTOML(t *testing.T) {
	got := parseTOML(`version = 3 # the file's
imports = ["/etc/containerd/conf.d/*.toml",
  '/x/#1.toml', # a comment, with "quotes"
]
[plugins]
  [plugins."io.containerd.cri.v1.runtime"]
    enable_cdi = false
    sandbox = "a = b"
  [ plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes."nvidia" ]
    runtime_type = 'io.containerd.runc.v2'
no value
`)
	want := settings{
		"":                                     {"version": "3", "imports": `["/etc/containerd/conf.d/*.toml", '/x/#1.toml', ]`},
		"plugins/io.containerd.cri.v1.runtime": {"enable_cdi": "false", "sandbox": "a = b"},
		"plugins/io.containerd.cri.v1.runtime/containerd/runtimes/nvidia": {"runtime_type": "io.containerd.runc.v2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parseTOML (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/etc/containerd/conf.d/*.toml", "/x/#1.toml"}, list(got[""]["imports"])); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}

func FuzzParseTOML(f *testing.F) {
	for _, seed := range []string{"", "[", "[a.\"b", "x = [", "x = [ [1], 2]\n[t]\ny='", "= 3", "[]\n\"\" = \"\""} {
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		for _, values := range parseTOML(text) {
			for _, v := range values {
				list(v)
			}
		}
	})
}

func TestVersions(t *testing.T) {
	for line, want := range map[string]string{
		"containerd containerd.io 1.7.24 88bf19b2105c8b17560993bee28a01ddc2f97182":                       "1.7.24",
		"containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7193e4e490e9fbdc236c0e811ccaba3376": "2.1.4",
		"containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u1":                    "1.6.20",
		"": "",
	} {
		if got := lastVersion(line); got != want {
			t.Errorf("lastVersion(%q) = %q, want %q", line, got, want)
		}
	}
	for text, want := range map[string]string{
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.124.06  Wed Feb 26 01:00:00 UTC 2025\nGCC version: gcc 12.2.0": "570.124.06",
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build  (dvs-builder@U22)\n":            "580.82.07",
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  615.10  Mon":                                                       "615.10",
		"something else": "",
	} {
		if got := kernelVersion(text); got != want {
			t.Errorf("kernelVersion(%q) = %q, want %q", text, got, want)
		}
	}
	for _, v := range [][2]string{{"", "1"}, {"1.6.20", "1.7"}, {"1.9", "1.10"}, {"2.0", "2.0.1"}} {
		if !less(v[0], v[1]) || less(v[1], v[0]) {
			t.Errorf("less(%q, %q) is not a strict order", v[0], v[1])
		}
	}
}
