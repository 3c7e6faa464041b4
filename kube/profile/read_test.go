package profile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth.dev/berth/kube/profile"
)

// rows: JH-11
func TestReadFindsTheSection(t *testing.T) {
	const section = "profileList:\n- display_name: A\n- display_name: 2\nimage: {name: b, tag: v1}\nfrobnicate: 1\n"
	nest := func(keys ...string) string {
		text := section
		for _, key := range slices.Backward(keys) {
			text = key + ":\n" + indent(text)
		}
		return text
	}
	tests := []struct {
		name, text, section string
	}{
		{"zero-to-jupyterhub's own", nest("singleuser"), "singleuser"},
		{"a chart around it", "other: 1\n" + nest("jupyterhub", "singleuser"), "jupyterhub.singleuser"},
		{"daskhub", nest("basehub", "jupyterhub", "singleuser"), "basehub.jupyterhub.singleuser"},
		{"the section alone", section, ""},
		{"a section without profiles goes behind one with some", "singleuser: {profileList: null}\n" + nest("jupyterhub", "singleuser"), "jupyterhub.singleuser"},
		{"a second document is not read", nest("singleuser") + "---\na: 1\n", "singleuser"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := profile.Read("v.yaml", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			key := strings.TrimPrefix(tt.section+".profileList[1].display_name", ".")
			i := slices.IndexFunc(f.Findings, func(each profile.Finding) bool { return each.Level == profile.Wrong })
			if len(f.Profiles) != 1 || f.Profiles[0].Name != "a" || i < 0 || f.Findings[i].Key != key {
				t.Errorf("%d profiles and the findings %+v, want one profile, and an error at %s", len(f.Profiles), f.Findings, key)
			}
		})
	}
}

func TestReadRefusesFiles(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for _, c := range "bcdefgh" {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 10), ", "))
	}
	for name, tt := range map[string]struct{ text, says string }{
		"empty":                        {"", "the file is empty"},
		"only a comment":               {"# nothing\n", "the file is empty"},
		"no YAML":                      {"a: [", "read YAML"},
		"a list":                       {"- a\n", "not a mapping"},
		"no profiles":                  {"hub: {}\n", "there is no profileList; it was looked for in singleuser"},
		"an empty list":                {"singleuser: {profileList: []}\n", "profileList: the list is empty"},
		"a text":                       {"singleuser: {profileList: many}\n", "it must be a list of profiles"},
		"a key twice":                  {"singleuser: {profileList: []}\nsingleuser: {}\n", "line 2: singleuser: the key is there twice, first on line 1"},
		"aliases of aliases":           {bomb + "singleuser: {x: *h, profileList: [{display_name: A}]}\n", "more than 200000 values"},
		"an alias within itself":       {"singleuser: &s {x: *s, profileList: [{display_name: A}]}\n", "nested deeper than 64"},
		"a merge of itself":            {"singleuser: &s {<<: *s, profileList: [{display_name: A}]}\n", "nested deeper than 64"},
		"a base value of another kind": {"singleuser: {cmd: !python/object x, profileList: [{display_name: A}]}\n", "values of !python/object are not read"},
		"a number that is none":        {"singleuser: {cpu: {limit: .inf}, profileList: [{display_name: A}]}\n", "is not a number"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := profile.Read("v.yaml", []byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.HasPrefix(err.Error(), "v.yaml: ") {
				t.Errorf("error %v, want v.yaml: ... %s", err, tt.says)
			}
		})
	}
	if _, err := profile.Read("v.yaml", make([]byte, profile.LargestFile+1)); err == nil {
		t.Error("a file beyond the limit was read")
	}
}

// rows: JH-15 JH-42
func TestReadKeepsOrderAndWhatItDoesNotKnow(t *testing.T) {
	f, err := profile.Read("v.yaml", []byte(`
singleuser:
  profileList:
    b: {display_name: B}
    a:
      display_name: A
      dynamic: {x: 1}
      profile_options:
        zeta: {choices: {z: {display_name: Z}, m: {slug: em}, a: {}}, dynamic_image_building: {enabled: true}}
        alpha: {choices: {one: {}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	// A mapping of profiles is in the order of its keys, as in kubespawner; all
	// else is as it stands.
	a := &f.Profiles[0]
	got := []string{a.Name, f.Profiles[1].Name}
	for _, o := range a.Spec.Options {
		got = append(got, o.Key)
		for _, c := range o.Choices {
			got = append(got, c.Key)
		}
	}
	if s := strings.Join(got, " "); s != "a b zeta z m a alpha one" {
		t.Errorf("order %s", s)
	}
	if s := string(a.Spec.Extra) + string(a.Spec.Options[0].Extra) + string(a.Spec.Options[0].Choices[1].Extra); s != `{"dynamic":{"x":1}}{"dynamic_image_building":{"enabled":true}}{"slug":"em"}` {
		t.Errorf("kept %s", s)
	}
}

func TestReadMergesAsPyYAML(t *testing.T) {
	f, err := profile.Read("v.yaml", []byte(`
singleuser:
  one: &one {display_name: One, slug: one, kubespawner_override: {mem_limit: 1G}}
  two: &two {slug: two, description: two}
  profileList:
  - {<<: [*two, *one], display_name: Own}
  - <<: *one
    kubespawner_override: {cpu_limit: 1}
`))
	if err != nil {
		t.Fatal(err)
	}
	p, q := &f.Profiles[0].Spec, &f.Profiles[1].Spec
	if p.Slug != "two" || p.DisplayName != "Own" || p.Description != "two" || string(p.Override) != `{"mem_limit":"1G"}` {
		t.Errorf("the first of a list of merges goes before the others, and the mapping's own before both: %+v", p)
	}
	if q.Slug != "one" || string(q.Override) != `{"cpu_limit":1}` {
		t.Errorf("a merge is of whole values: %+v", q)
	}
}

func TestReadGivesWordsTheirYAML11Meaning(t *testing.T) {
	p := one(t, `
profileList:
- display_name: A
  default: yes
  kubespawner_override:
    environment: {QUOTED: "yes", DATE: 2024-01-01, OCTAL: 0o17, BIG: 18446744073709551615}
`)
	want := `{"environment":{"BIG":18446744073709552000,"DATE":"2024-01-01","OCTAL":15,"QUOTED":"yes"}}`
	if !p.Spec.Default || string(p.Spec.Override) != want {
		t.Errorf("default %t, override %s, want true and %s", p.Spec.Default, p.Spec.Override, want)
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"t4.yaml", "z2jh.yaml", "hub.yaml", "bad.yaml"} {
		raw, err := readRaw(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte("singleuser: &s {<<: *s, profileList: [*s]}"))
	f.Add([]byte("profileList: {? [a] : b}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		file, err := profile.Read("v.yaml", raw)
		if err != nil {
			return
		}
		file.Check()
		for i := range file.Profiles {
			p := &file.Profiles[i].NotebookProfile
			if p.Name == "" || p.Spec.Slug == "" {
				t.Fatalf("profile %d has no name: %+v", i, p)
			}
			for _, o := range p.Spec.Options {
				if len(o.Choices) == 0 && (o.UnlistedChoice == nil || !o.UnlistedChoice.Enabled) {
					t.Fatalf("profile %s, option %s: nothing to choose", p.Name, o.Key)
				}
			}
		}
	})
}
