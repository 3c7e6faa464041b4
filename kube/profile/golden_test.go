package profile_test

import (
	"fmt"
	"strings"
	"testing"

	"berth.dev/berth/kube/profile"
	"berth.dev/berth/test/golden"
)

// renders are what the golden files show: every profile of the test files.
var renders = []struct {
	golden, file, slug string
	choices            profile.Choices
}{
	{"t4.golden.yaml", "t4.yaml", "", profile.Choices{User: "ada", Namespace: "lab"}},
	{"z2jh-cpu.golden.yaml", "z2jh.yaml", "cpu-only-2-cores-4gb", profile.Choices{User: "admin"}},
	{"z2jh-gpu.golden.yaml", "z2jh.yaml", "gpu-1x-tesla-t4-8gb", profile.Choices{User: "admin"}},
	{"hub-small.golden.yaml", "hub.yaml", "", profile.Choices{User: "Grace.Hopper@example.org", Name: "grace", Namespace: "default"}},
	{"hub-gpu.golden.yaml", "hub.yaml", "gpu", profile.Choices{
		User: "ada", Namespace: "lab", Groups: []string{"example:gpu-users"},
		Options: map[string]string{"requests": "mem_8"}, Unlisted: map[string]string{"image": "quay.io/ada/mine:1;%"},
	}},
}

// rows: JH-11 JH-12 JH-13 JH-14 JH-15 JH-16 JH-18 JH-19 JH-20 JH-21 JH-22 JH-23 JH-24 JH-38 JH-41 ML-19 ML-20
func TestRenderGolden(t *testing.T) {
	for _, tt := range renders {
		t.Run(tt.golden, func(t *testing.T) {
			list := objects(t, read(t, tt.file))
			p, err := profile.Pick(list, tt.slug, tt.choices.Groups)
			if err != nil {
				t.Fatal(err)
			}
			nb, claim, warnings, err := profile.Render(p, tt.choices)
			if err != nil {
				t.Fatal(err)
			}
			docs := []any{nb}
			if claim != nil {
				docs = append(docs, claim)
			}
			text := asYAML(t, docs...)
			for _, w := range warnings {
				text += fmt.Sprintf("# warning: %s: %s\n", w.Key, w.Text)
			}
			golden.File(t, tt.golden, text)
		})
	}
}

// rows: JH-17 JH-26 JH-42
func TestCheckGolden(t *testing.T) {
	for _, name := range []string{"t4.yaml", "z2jh.yaml", "hub.yaml", "bad.yaml"} {
		t.Run(name, func(t *testing.T) {
			f := read(t, name)
			f.Check()
			var b strings.Builder
			for i := range f.Findings {
				fmt.Fprintf(&b, "%s %s [%s]\n  %s\n", f.Findings[i].Level, f.Findings[i].Code, f.Findings[i].Profile, f.Findings[i].String())
			}
			b.WriteString("profiles:")
			for i := range f.Profiles {
				b.WriteString(" " + f.Profiles[i].Name)
			}
			golden.File(t, strings.TrimSuffix(name, ".yaml")+".findings.txt", b.String()+"\n")
		})
	}
}

// BenchmarkRender renders each profile of the test files; a millisecond is the
// most that one may take.
func BenchmarkRender(b *testing.B) {
	for _, tt := range renders {
		b.Run(tt.golden, func(b *testing.B) {
			list := objects(b, read(b, tt.file))
			p, err := profile.Pick(list, tt.slug, tt.choices.Groups)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, _, _, err := profile.Render(p, tt.choices); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
