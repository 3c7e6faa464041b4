package profile_test

import (
	"strings"
	"testing"

	"berth.dev/berth/kube/profile"
)

// stack reads files of which the last overrides those before it.
func stack(texts ...string) (*profile.File, error) {
	names := []string{"chart.yaml", "common.yaml", "hub.yaml"}
	names = names[len(names)-len(texts):]
	var all []profile.Source
	for i, text := range texts {
		all = append(all, profile.Source{Name: names[i], Raw: []byte(text)})
	}
	last := len(all) - 1
	return profile.Read(all[last].Name, all[last].Raw, all[:last]...)
}

func TestFilesLieOverEachOtherAsWithHelm(t *testing.T) {
	f, err := stack(
		"nfs: {}\nsingleuser: {memory: {guarantee: 3G}, cpu: {guarantee: 1}, nodeSelector: {a: \"1\"}, image: {tag: v1}, uid: null}",
		"jupyterhub: {singleuser: {memory: {limit: 8G, guarantee: 2G}, storage: {type: none}, profileList: [{display_name: B}]}}", `
basehub:
  jupyterhub:
    singleuser:
      image: {name: own, tag: v2}
      memory: {limit: null}
      nodeSelector: {b: "2"}
      profileList: [{display_name: A}]
`)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"cpu":{"guarantee":1},"image":{"name":"own","tag":"v2"},"memory":{"guarantee":"2G","limit":null},"nodeSelector":{"a":"1","b":"2"},"storage":{"type":"none"},"uid":null}`
	if len(f.Profiles) != 1 || f.Profiles[0].Spec.DisplayName != "A" || string(f.Profiles[0].Spec.Base) != want {
		t.Errorf("base %s\nwant %s", f.Profiles[0].Spec.Base, want)
	}
	nb, _, _, err := profile.Render(&objects(t, f)[0], profile.Choices{User: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	if c := podOf(t, nb).Containers[0].SecurityContext; c.RunAsUser != nil {
		t.Errorf("null did not take the chart's uid away: %v", *c.RunAsUser)
	}
}

func TestNoFileOfAStackAloneNeedsProfilesOrASection(t *testing.T) {
	const profiles = "jupyterhub:\n  singleuser:\n    profileList: [{display_name: A}]\n"
	for name, texts := range map[string][]string{
		"profiles below a file of hub settings":  {profiles, "jupyterhub: {hub: {db: {}}}"},
		"profiles below a file of another chart": {profiles, "nfs: {}"},
		"profiles below an empty file":           {profiles, "# nothing\n"},
		"profiles below a section without them":  {profiles, "jupyterhub: {singleuser: {memory: {limit: 1G}}}"},
		"profiles over a file of another chart":  {"nfs: {}", profiles},
		"profiles over an empty file":            {"", profiles},
		"profiles between two files":             {"jupyterhub: {scheduling: {}}", profiles, "jupyterhub: {x: 1}"},
		"profiles as a mapping, over two files":  {"jupyterhub: {singleuser: {profileList: {a: {display_name: A}}}}", "jupyterhub: {singleuser: {profileList: {a: {description: over}}}}"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := stack(texts...)
			if err != nil {
				t.Fatal(err)
			}
			f.Check()
			if len(f.Profiles) != 1 || f.Profiles[0].Spec.DisplayName != "A" {
				t.Errorf("%d profiles; %v", len(f.Profiles), f.Findings)
			}
		})
	}
}

func TestAStackIsRefusedWithTheFileAndItsLine(t *testing.T) {
	const sound = "singleuser: {profileList: [{display_name: A}]}\n"
	for name, tt := range map[string]struct {
		under, over, says string
	}{
		"no profiles in any":             {"nfs: {}", "singleuser: {}", "hub.yaml: there is no profileList in it or in what it overrides (common.yaml)"},
		"YAML that is none, below":       {"a: [", sound, "common.yaml: read YAML"},
		"a list below":                   {"- a", sound, "common.yaml: the file is not a mapping"},
		"a key twice below":              {"singleuser:\n  uid: 1\n  uid: 2\n", sound, "common.yaml: line 3: singleuser.uid: the key is there twice, first on line 2"},
		"a key twice above":              {sound, "\n\nsingleuser: {uid: 1, uid: 2}", "hub.yaml: line 3: singleuser.uid: the key is there twice, first on line 3"},
		"a list of profiles that is one": {"singleuser:\n  profileList: []\n", "hub: {}\nproxy: {}\n", "common.yaml: line 2: profileList: the list is empty"},
		"values within themselves":       {"singleuser: &s {x: *s, profileList: []}", "singleuser: &s {x: *s}", "nested deeper than 64"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := stack(tt.under, tt.over); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want %s", err, tt.says)
			}
		})
	}
}

func TestFindingsNameTheirFileAndItsLine(t *testing.T) {
	f, err := stack(
		"\n\njupyterhub:\n  singleuser:\n    image: {name: low, tag: latest}\n    frobnicate: 1\n    profileList:\n    - display_name: A\n    - display_name: 2\n",
		"basehub:\n  jupyterhub:\n    singleuser:\n      cloudMetadata: {ip: x}\n      frobnicate: 2\n",
	)
	if err != nil {
		t.Fatal(err)
	}
	f.Check()
	var got []string
	for i := range f.Findings {
		got = append(got, f.Findings[i].String())
	}
	want := []string{
		"hub.yaml:4: basehub.jupyterhub.singleuser.cloudMetadata: not used",
		"hub.yaml:5: frobnicate: nothing reads this key in singleuser",
		"common.yaml:5: jupyterhub.singleuser.image.tag: image low:latest",
		"common.yaml:9: jupyterhub.singleuser.profileList[1].display_name: 2 must be a text",
	}
	if len(got) != len(want) {
		t.Fatalf("%d findings:\n%s", len(got), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("finding %d is\n%s\nwant\n%s", i, got[i], want[i])
		}
	}
	if source := f.Profiles[0].Spec.Source; source != "common.yaml:8" {
		t.Errorf("the profile is from %s, want common.yaml:8", source)
	}
}

func TestWhatTheChartAdds(t *testing.T) {
	const profiles = "singleuser: {profileList: [{display_name: A}]"
	for name, tt := range map[string]struct {
		text, image, secrets, finding string
	}{
		"the chart's sample image":   {profiles + "}", "quay.io/jupyterhub/k8s-singleuser-sample:4.3.3", "", "the chart's sample image, which has no GPU libraries"},
		"another tag of it":          {profiles + ", image: {tag: 4.2.0}}", "quay.io/jupyterhub/k8s-singleuser-sample:4.2.0", "", "the chart's sample image"},
		"a name without a tag":       {profiles + ", image: {name: own}}", "own", "", "has no tag"},
		"a Secret that it creates":   {profiles + "}\nimagePullSecret: {create: true, password: hidden}", "", "image-pull-secret", "create it in the notebooks' namespaces too"},
		"a Secret that is not given": {profiles + "}\nimagePullSecret: {create: true, automaticReferenceInjection: false}", "", "", ""},
		"Secrets of all three kinds": {profiles + ", image: {pullSecrets: [c]}}\nimagePullSecret: {create: true}\nimagePullSecrets: [{name: b}]", "", "image-pull-secret b c", ""},
		"a command of a hub":         {profiles + ", cmd: [start.sh, jupyterhub-singleuser]}", "", "", "needs the token of a JupyterHub"},
		"another command":            {profiles + ", cmd: [code-server]}", "", "", "must serve at $(NB_PREFIX) on port 8888, without a hub"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := stack(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			f.Check()
			nb, _, _, err := profile.Render(&objects(t, f)[0], profile.Choices{User: "ada"})
			if err != nil {
				t.Fatal(err)
			}
			pod := podOf(t, nb)
			var secrets []string
			for _, each := range pod.ImagePullSecrets {
				secrets = append(secrets, each.Name)
			}
			if tt.image != "" && pod.Containers[0].Image != tt.image || strings.Join(secrets, " ") != tt.secrets {
				t.Errorf("image %s, Secrets %v; want %s, %s", pod.Containers[0].Image, secrets, tt.image, tt.secrets)
			}
			var all []string
			for i := range f.Findings {
				all = append(all, f.Findings[i].String())
			}
			if !strings.Contains(strings.Join(all, "\n"), tt.finding) {
				t.Errorf("findings %q, want %q", all, tt.finding)
			}
			if strings.Contains(string(f.Profiles[0].Spec.Base), "hidden") {
				t.Error("the profile has the registry's password")
			}
		})
	}
}

func TestACommandOfExtraFilesIsRefused(t *testing.T) {
	f, err := stack("singleuser:\n  cmd: /usr/local/bin/run.sh\n  extraFiles: {run: {mountPath: /usr/local/bin/run.sh, stringData: x}}\n  profileList: [{display_name: A}]\n")
	if err != nil {
		t.Fatal(err)
	}
	f.Check()
	var wrong []string
	for i := range f.Findings {
		if f.Findings[i].Level == profile.Wrong {
			wrong = append(wrong, f.Findings[i].String())
		}
	}
	if len(wrong) != 1 || !strings.HasPrefix(wrong[0], "hub.yaml:2: singleuser.cmd: /usr/local/bin/run.sh is the file run of extraFiles") {
		t.Errorf("errors %q", wrong)
	}
}
